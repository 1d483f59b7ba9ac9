#!/usr/bin/env bash
# Check all that is here: the container, the unit and the two proxies. What is not installed is passed over and named.
#
#   deploy/check.sh            all: the proxies and the container are started and asked
#   deploy/check.sh proxies    whether the unit and the files of the proxies are right, in seconds
#
# BUILDER is podman, docker or buildah (default: the first that works), BUILD_ARGS are more arguments for its build,
# such as --build-arg BASE=IMAGE. Without a builder, the steps of the Containerfile are run in a folder of their own
# (PYTHON: of which Python; PIP_ARGS: more arguments for pip). NGINX_BIN and CADDY_BIN name programs that are not on the
# path.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap '[ -z "${server:-}" ] || kill "$server"; [ -z "${container:-}" ] || buildah rm "$container"; chmod -R u+w "$work"; rm -rf "$work"' EXIT

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

# Index, serve, ask for health, reload, stop; "$@" before a command runs it where phrasemate is, in $work/data.
exercise_server() {
    local check port log="requests-$$.log"
    "$@" phrasemate index add a.txt -o news --lang en
    "$@" phrasemate serve news --port 0 --json --access-log "$log" >"$work/ready.json" &
    for _ in $(seq 600); do [ -s "$work/ready.json" ] && break; sleep 0.2; done
    port=$(sed 's/.*127.0.0.1:\([0-9]*\).*/\1/' "$work/ready.json")
    check=$(health "$port")
    server=$(pgrep -n -f "$log")  # the newest is the server, the others have started it
    "$@" python -c "$check"
    kill -HUP "$server" && sleep 2
    "$@" python -c "$check"
    kill "$server"
    wait
    server=
    [ "$(grep -c '"route": "/ready"' "$work/data/$log")" = 2 ]
}

# Run a command on the files of a container at $root, as its user and with its variables. The root is read-only; only
# /data and /tmp can be written. So does "podman run --read-only --tmpfs /tmp", which needs more of the system.
sealed() {
    local variables
    mapfile -t variables <"$work/env"
    unshare --mount --propagation private sh -ec '
        root=$1 data=$2; shift 2
        mount --bind "$root" "$root"
        mount --options remount,bind,ro "$root"
        mount --bind "$data" "$root/data"
        mount --types tmpfs --options mode=1777 tmpfs "$root/tmp"
        mount --types proc proc "$root/proc"
        for place in dev sys; do mount --rbind "/$place" "$root/$place"; done
        exec setpriv --no-new-privs chroot --userspec=10001:10001 --groups= "$root" \
            env --ignore-environment --chdir=/data "$@"' sealed "$root" "$work/data" "${variables[@]}" "$@"
}

check_container() {
    local builder='' candidate
    for candidate in ${BUILDER:-podman docker buildah}; do
        if "$candidate" info >/dev/null 2>&1; then builder=$candidate; break; fi
    done
    mkdir "$work/data" "$work/src" && git ls-files -z | xargs -0 cp --parents -t "$work/src"
    printf 'She sat on a bench in the park.\nThe bank refused the loan.\n' >"$work/data/a.txt"
    if [ -n "$builder" ]; then
        step "$builder build"
        # shellcheck disable=SC2086
        "$builder" build ${BUILD_ARGS:-} -t phrasemate-check -f "$work/src/deploy/Containerfile" "$work/src" >"$work/build.log" 2>&1 ||
            { tail -n 20 "$work/build.log" >&2; return 1; }
        chown -R 10001 "$work/data" && chmod 755 "$work"
        if [ "$builder" = buildah ]; then
            container=$(buildah from phrasemate-check)
            root=$(buildah mount "$container")
            buildah inspect --format '{{range .OCIv1.Config.Env}}{{println .}}{{end}}' "$container" | grep . >"$work/env"
            sealed id -u | grep -qx 10001
            sealed sh -c 'touch /data/a /tmp/a && for place in / /etc /opt/phrasemate /usr /var; do
                ! touch "$place/a" 2>/dev/null || exit 1; done'
            exercise_server sealed
            buildah rm "$container" >/dev/null
            container=
        else
            "$builder" run -d --rm --name phrasemate-check --network host --read-only --tmpfs /tmp --cap-drop all \
                --security-opt no-new-privileges -v "$work/data:/data" --entrypoint sleep phrasemate-check 600 >/dev/null
            exercise_server "$builder" exec phrasemate-check
            "$builder" stop -t 1 phrasemate-check >/dev/null
        fi
        echo "container: built by $builder; with a read-only root: ready, reloaded, stopped"
        return
    fi
    step "no builder of containers: the steps of the Containerfile in $work"
    grep -q '^USER 10001$' deploy/Containerfile
    local folder="$work/opt/phrasemate"
    "${PYTHON:-python3.11}" -m venv "$folder"
    # shellcheck disable=SC2086
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir ${PIP_ARGS:-} "$work/src[serve,formats]"
    chmod -R a-w "$folder"  # the root is read-only
    export PATH="$folder/bin:$PATH" HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME="$work"
    exercise_server env -C "$work/data"
    du -sh "$folder" | cut -f 1
    echo "steps of the container: installed, ready, reloaded, stopped"
}

check_unit
check_nginx
check_caddy
[ "${1:-all}" = proxies ] && exit
step "the proxies at work"
"${PHRASEMATE_PYTHON:-.venv/bin/python}" deploy/exercise.py
check_container
