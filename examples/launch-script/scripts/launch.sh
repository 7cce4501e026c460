#!/usr/bin/env bash
# Starts or stops one of the servers of this repository: scripts/launch.sh up|down NAME
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
action=${1:?up or down}
name=${2:?the name of a file in compose/}
[[ $name =~ ^[a-z0-9-]+$ && -f compose/$name.yml ]] || {
    echo "no such server: $name" >&2
    exit 64
}
case $action in
    up) exec docker compose -p "$name" -f "compose/$name.yml" up --detach --quiet-pull ;;
    down) exec docker compose -p "$name" -f "compose/$name.yml" down --timeout 20 --volumes ;;
    *)
        echo "up or down, not $action" >&2
        exit 64
        ;;
esac
