# What scenes say and expect. tests/check-file-systems sources it.

# Runs the program, keeps what it prints in the file $output, and expects a status.
#
#   run STATUS ARGUMENT...
run() {
    local wanted=$1 status=0
    shift
    "$evener" "$@" >"$output" 2>&1 </dev/null || status=$?
    [ "$status" -eq "$wanted" ] || fail "\`evener $*\` ended with $status, not with $wanted"
}

# The last run has printed a line that matches an extended regular expression.
printed() { grep -Eq -- "$1" "$output" || fail "it has not printed \`$1\`"; }

# The last run has printed such lines so many times.
printed_times() {
    local count
    count=$(grep -Ec -- "$2" "$output" || true)
    [ "$count" -eq "$1" ] || fail "it has printed \`$2\` $count times, not $1"
}

# The last run has printed no such line.
not_printed() { ! grep -Eq -- "$1" "$output" || fail "it has printed \`$1\`"; }

# Two trees have the same names and contents.
same() { diff -r --no-dereference "$1" "$2" || fail "$1 and $2 differ"; }

fail() {
    printf '%s on %s: %s\n' "${name:-scene}" "$on" "$*" >&2
    if [ -s "$output" ]; then sed 's/^/    | /' "$output" >&2; fi
    exit 1
}

# Waits until the clock of the file systems has gone on, so that what comes now is newer than what was.
let_time_pass() {
    touch "$here/.before"
    while
        touch "$here/.after"
        [ "$(stat -c %z "$here/.after")" = "$(stat -c %z "$here/.before")" ]
    do :; done
    rm "$here/.before" "$here/.after"
}
