"""Training: the loop, and the methods CCPR, XPR, BiCLA, re-ranker and LoRA, a file each. Needs the extra [train]."""

__all__: list[str] = []
