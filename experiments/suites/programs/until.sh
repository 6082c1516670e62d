# Helpers for scripts that start a server; read by `. until.sh`.

# Repeats a command silently until it succeeds, for at most half a minute.
until_ready() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || { echo "never succeeded: $*" >&2; exit 1; }
        sleep 0.1
    done
}
