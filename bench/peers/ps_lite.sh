#!/bin/bash
# `./sluice bench exchange` beside ps-lite. FOLDER has the sources of
# dmlc/ps-lite, or of what has grown from it (BytePS's); of Debian's packages it
# needs libzmq3-dev.
#
#   bench/peers/ps_lite.sh FOLDER [options of bench exchange]
set -euo pipefail

ROOT=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
FOLDER=${1:?the folder of ps-lite}
if [[ ! -f $FOLDER/include/ps/ps.h ]]; then
  echo "ps_lite: $FOLDER/include/ps/ps.h is not there" >&2
  exit 1
fi
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
g++ -std=c++20 -O3 -mavx2 -w -I"$FOLDER/include" -I"$FOLDER/src" -I"$ROOT" \
  "$FOLDER"/src/*.cc "$ROOT"/bench/peers/ps_lite.cc \
  "$ROOT"/bench/exchange_peer.cc "$ROOT"/common/rpc/malloc_tuning.cc \
  -lzmq -lpthread -o "$built/ps-lite"
"$ROOT"/sluice bench exchange --beside "$built/ps-lite" "${@:2}"
