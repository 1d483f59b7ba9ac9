#!/usr/bin/env bash
# Check all that is here: the container, the unit and the two proxies. What is not installed is passed over and named.
#
#   deploy/check.sh            all
#   deploy/check.sh proxies    the unit and the proxies only, in seconds
#
# Without a builder of containers, the steps of the Containerfile are run in a folder of their own (PYTHON: of which
# Python, PIP_ARGS: more arguments for pip; NGINX_BIN and CADDY_BIN: of programs that are not on the path).
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap '[ -z "${server:-}" ] || kill "$server"; chmod -R u+w "$work"; rm -rf "$work"' EXIT

step() { echo "== $*"; }
absent() { echo "-- $1 is not installed: passed over"; }

check_unit() {
    command -v systemd-analyze >/dev/null || { absent systemd-analyze; return; }
    step "systemd-analyze verify"
    mkdir -p "$work/unit"
    sed 's|^ExecStart=/srv/phrasemate/.venv/bin/phrasemate|ExecStart=/bin/true|' deploy/phrasemate.service \
        >"$work/unit/phrasemate.service"
    systemd-analyze verify --man=no "$work/unit/phrasemate.service"
    systemd-analyze security --offline=true --threshold=20 "$work/unit/phrasemate.service" | tail -n 1
}

certificate() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=terms.example.org \
        -keyout "$work/privkey.pem" -out "$work/fullchain.pem" 2>/dev/null
}

check_nginx() {
    command -v "${NGINX_BIN:=nginx}" >/dev/null || { absent nginx; return; }
    step "nginx -t"
    certificate
    {
        echo "pid $work/nginx.pid; events {} http { access_log off;"
        for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $work/$kind;"; done
        sed "s|/etc/letsencrypt/live/terms.example.org|$work|" deploy/nginx.conf
        echo "}"
    } >"$work/nginx.conf"
    "$NGINX_BIN" -t -q -e stderr -c "$work/nginx.conf" && echo "nginx: the file is right"
}

check_caddy() {
    command -v "${CADDY_BIN:=caddy}" >/dev/null || { absent caddy; return; }
    step "caddy validate"
    HOME="$work" XDG_DATA_HOME="$work" XDG_CONFIG_HOME="$work" \
        "$CADDY_BIN" validate --config deploy/Caddyfile --adapter caddyfile 2>"$work/caddy.log" | tail -n 1 ||
        { cat "$work/caddy.log" >&2; return 1; }
}

# The health check of the Containerfile, as it stands there.
health() { sed -n 's/^ *CMD \["python", "-c", "\(.*\)"\]$/\1/p' deploy/Containerfile | sed "s/:8000/:$1/"; }

check_container() {
    for builder in podman docker; do
        if "$builder" info >/dev/null 2>&1; then
            step "$builder build"
            "$builder" build -q -t phrasemate-check -f deploy/Containerfile .
            "$builder" run --rm --read-only --tmpfs /tmp phrasemate-check --version
            return
        fi
    done
    step "no builder of containers: the steps of the Containerfile in $work"
    grep -q '^USER 10001$' deploy/Containerfile
    local folder="$work/opt/phrasemate"
    mkdir "$work/src" && git ls-files -z | xargs -0 cp --parents -t "$work/src"
    "${PYTHON:-python3.11}" -m venv "$folder"
    # shellcheck disable=SC2086
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir ${PIP_ARGS:-} "$work/src[serve,formats]"
    rm -rf "$work/src"
    mkdir "$work/data" && cd "$work/data"
    export PATH="$folder/bin:$PATH" HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME="$work"
    printf 'She sat on a bench in the park.\nThe bank refused the loan.\n' >a.txt
    phrasemate index add a.txt -o news --lang en
    chmod -R a-w "$folder"  # the root is read-only
    phrasemate serve news --port 0 --json --access-log requests.log >ready.json &
    server=$!
    for _ in $(seq 300); do [ -s ready.json ] && break; sleep 0.2; done
    port=$(sed 's/.*127.0.0.1:\([0-9]*\).*/\1/' ready.json)
    python -c "$(health "$port")"
    kill -HUP "$server" && sleep 1
    python -c "$(health "$port")"
    kill "$server" && wait "$server"
    server=
    grep -c '"route": "/ready"' requests.log
    du -sh "$folder" | cut -f 1
    echo "container: built, ready, reloaded, stopped"
}

check_unit
check_nginx
check_caddy
[ "${1:-all}" = proxies ] || check_container
