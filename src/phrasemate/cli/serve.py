"""``phrasemate serve``: the web page and the REST API."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from phrasemate.cli.options import Dictionaries, Quick, argument, flag, opened_dictionaries, option
from phrasemate.errors import InputError, needs_extra
from phrasemate.utils.machine import share_heaps


def serve(
    indexes: Annotated[list[Path], argument("DIR", "The indexes to serve.")],
    host: Annotated[
        str, option("--host", "ADDRESS", "Address to listen on; any other than 127.0.0.1 needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, option("--port", "N", "Port to listen on (0: any that is free).", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None,
        option("--token-file", "FILE", "File with the token that clients must send (default: $PHRASEMATE_TOKEN)."),
    ] = None,
    tokens: Annotated[
        Path | None,
        option("--tokens", "FILE.toml", "Hashed tokens of several users, with their rights and rate limits."),
    ] = None,
    access_log: Annotated[
        str | None, option("--access-log", "FILE", "Log a JSON line for each request, without its text; - is stdout.")
    ] = None,
    traces: Annotated[bool, flag("--traces", "Send OpenTelemetry traces, as the variables OTEL_* say.")] = False,
    allow_host: Annotated[
        list[str] | None,
        option(
            "--allow-host",
            "NAME",
            "Another host name of this server, e.g. a proxy's (repeatable; with --host 0.0.0.0, give all of them).",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        option(
            "--allow-origin",
            "SITE",
            "Another site whose pages may call the REST API with the token, e.g. https://tool.example (repeatable).",
        ),
    ] = None,
    public: Annotated[
        bool, flag("--public", "Serve a public demo: no token, lower limits, no document uploads, no glossary.")
    ] = False,
    threads: Annotated[
        int | None, option("--threads", "N", "Threads for the encoder (default: all cores).", min=1)
    ] = None,
    glossary: Annotated[
        Path | None,
        option(
            "--glossary",
            "FILE.jsonl",
            "Keep the chosen equivalents in this file, which is created if missing (default: until the server stops).",
        ),
    ] = None,
    dictionary: Dictionaries = None,
    quick: Quick = False,
    as_json: Annotated[bool, flag("--json", "Print one JSON object when the server is ready.")] = False,
) -> None:
    """Start a server with a page for the browser and a REST API.

    Only this machine can connect, unless --host and a token are given. Documents may be added to an index while it is
    served. Ctrl-C stops the server once it has answered the current requests. SIGHUP reloads the indexes and tokens.

    Examples:
      phrasemate serve idx                                       then open http://127.0.0.1:8000/
      phrasemate serve german english --port 9000                several indexes
      phrasemate serve idx --glossary terms.jsonl                keeps the equivalents that you choose
      phrasemate serve idx --dictionary clients.tbx              uses your term base, too
      phrasemate serve idx --host 0.0.0.0 --token-file token     other machines connect with the token
      phrasemate serve idx --host 0.0.0.0 --public               a public demo
      curl http://127.0.0.1:8000/api/v1/search --json '{"query": "Er sitzt auf der [[Bank]]."}'
    """
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the indexes are open and can be reloaded
    with needs_extra("serve"):
        from phrasemate.server import api, app
    from phrasemate.glossary import Glossary
    from phrasemate.server.indexes import Library
    from phrasemate.server.middleware import open_log, start_tracing
    from phrasemate.server.settings import Settings, public_settings
    from phrasemate.server.tokens import Tokens

    if public and glossary:
        raise InputError("--glossary: a public demo has no glossary; leave out --public or --glossary")
    share_heaps()
    settings = public_settings() if public else Settings()
    user_glossary, dictionaries = Glossary(glossary), opened_dictionaries(dictionary)
    users = Tokens(tokens) if tokens else None
    access = app.access_for(host, app.read_token(token_file), allow_host or (), allow_origin or (), public, users)
    if access_log:
        open_log(access_log)
    if traces:
        start_tracing()
    with app.bind(host, port) as listening:
        library = Library(indexes, settings, threads, views=not quick, dictionaries=dictionaries)

        def ready(url: str) -> None:
            if as_json:
                typer.echo(json.dumps({"url": url, "indexes": library.names, "token": bool(access.token or users)}))
            else:
                typer.echo(f"serving {', '.join(library.names)} on {url} (Ctrl-C stops)", err=True)

        application = app.create_app(library, settings, access, user_glossary)
        app.server_of(application, settings, ready, partial(api.reload, library, users)).run(sockets=[listening])
    if not as_json:
        typer.echo("stopped", err=True)
