"""``phrasemate serve``: the concordance page and the REST service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from phrasemate.cli.options import Quick
from phrasemate.errors import MissingExtra
from phrasemate.utils.cpu import share_heaps

EXAMPLES = """Examples:

\b
  phrasemate serve idx                                       then open http://127.0.0.1:8000/
  phrasemate serve german english --port 9000                several indexes
  phrasemate serve idx --host 0.0.0.0 --token-file token     for others, who need the token
  curl http://127.0.0.1:8000/api/v1/search --json '{"query": "Er sitzt auf der [[Bank]]."}'"""


def serve(
    indexes: Annotated[list[Path], typer.Argument(metavar="DIR...", help="The indexes.")],
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on; another than this needs a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port to listen on (0: any that is free).")
    ] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="A token that must be sent (default: that in $PHRASEMATE_TOKEN)."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="Another name of this server, e.g. a proxy's (repeatable; with --host 0.0.0.0 all of its names).",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", min=1, help="Threads to compute with (default: all cores).")
    ] = None,
    quick: Quick = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object when it answers.")] = False,
) -> None:
    """Serve the concordance page and the REST service.

    On this machine only, unless another address and a token are given. An index may be added to while it is served.
    Ctrl-C stops the server when it has finished what it is doing.
    """
    try:
        from phrasemate.server import uvicorn_server
        from phrasemate.server.app import create_app
    except ImportError as error:
        raise MissingExtra(error.name or "fastapi", "serve") from error
    from phrasemate.server.indexes import Library
    from phrasemate.server.settings import Settings

    share_heaps()
    settings = Settings()
    access = uvicorn_server.access_for(host, uvicorn_server.read_token(token_file), allow_host or ())
    with uvicorn_server.bind(host, port) as listening:
        library = Library(indexes, settings, threads, views=not quick)

        def ready(url: str) -> None:
            if as_json:
                typer.echo(json.dumps({"url": url, "indexes": library.names, "token": bool(access.token)}))
            else:
                typer.echo(f"serving {', '.join(library.names)} on {url} (Ctrl-C stops)", err=True)

        uvicorn_server.serve(create_app(library, settings, access), listening, settings, ready)
    if not as_json:
        typer.echo("stopped", err=True)
