#!/bin/sh
# A program with the part of Evener's command line that the benchmark uses. It only copies.
case $1 in
keygen) echo key >"$3" ;;
--version) echo stand-in 1.0 ;;
encrypt | decrypt)
    # The last two arguments are the source and the target.
    while [ $# -gt 2 ]; do shift; done
    exec cp -r -- "$1" "$2"
    ;;
*)
    echo "unknown command $1" >&2
    exit 2
    ;;
esac
