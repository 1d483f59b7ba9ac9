"""One paper, one file; and the bricks that they share. Training only: nothing here is needed to search."""

__all__: list[str] = []
