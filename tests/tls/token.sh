# A token behind PKCS #11 that does records: SoftHSM2, and a library that gives it faults. For
# tests/check-tls.

token() {
    softhsm=
    local place mode
    for place in /usr/lib/softhsm /usr/lib64/softhsm /usr/lib64/pkcs11 /usr/lib/pkcs11 /usr/local/lib/softhsm; do
        if [ -e "$place/libsofthsm2.so" ]; then softhsm=$place/libsofthsm2.so; fi
    done
    if [ -z "$softhsm" ] || ! command -v softhsm2-util >/dev/null; then
        scripts/lack "TLS provider with a token: SoftHSM2 is not installed (Debian: softhsm2)"
        return
    fi
    mkdir -p "$work/token/tokens"
    echo "directories.tokendir = $work/token/tokens" >"$work/token/softhsm2.conf"
    export SOFTHSM2_CONF=$work/token/softhsm2.conf EVENER_SHIM_MODULE=$softhsm
    softhsm2-util --init-token --free --label evener --so-pin 12345678 --pin "$PIN" >/dev/null
    echo "$PIN" >"$work/token/pin"
    for mode in gcm cbc; do
        with_token good "$mode" "token=evener?module-path=$softhsm"
    done
    echo "passed: a token does records, also of children"
    token_ahead_of_others
    token_that_is_wrong
    token_that_is_absent
    if grep --quiet "$PIN" "$work/token/said" "$work/token/status" "$work/token.cnf"; then
        fail "the PIN is in a message, a configuration or what evener tls status prints"
    fi
    unset SOFTHSM2_CONF EVENER_SHIM_MODULE
}

# Threads that go before others, and what is said where they may not.
token_ahead_of_others() {
    local uri="token=evener?module-path=$softhsm"
    if [ "$(id -u)" -ne 0 ]; then
        scripts/skip "TLS provider, threads that go before others: only root surely may raise a priority"
        return
    fi
    with_token good gcm "$uri" --ahead 10
    if grep 'ahead' "$work/errors"; then fail "something is said of threads that may go before others"; fi
    within=(setpriv --bounding-set=-sys_nice)
    with_token good gcm "$uri" --ahead 10
    within=()
    if [ "$(grep -c '`ahead = 10`: the system does not allow it' "$work/errors")" -ne 1 ]; then
        cat "$work/errors"
        fail "this is not said once: threads may not go before others"
    fi
    echo "passed: threads that use a token go before others, where they may"
}

# Each fault begins in the middle of the records.
token_that_is_wrong() {
    local uri="token=evener?module-path=$work/token/shim.so" lie mode
    "$cc" -std=c11 -D_GNU_SOURCE -shared -fPIC crates/engines/src/pkcs11/tests/shim.c -ldl \
        -o "$work/token/shim.so"
    for mode in gcm cbc; do
        EVENER_SHIM_REMOVED_AFTER=60 with_token bad "$mode" "$uri"
        for lie in error swap truncate hang; do
            EVENER_SHIM_LIE=$lie EVENER_SHIM_LIE_AFTER=60 with_token bad "$mode" "$uri"
        done
        # A single wrong bit is found for sure where each record is computed again.
        EVENER_SHIM_LIE=flip EVENER_SHIM_LIE_AFTER=60 \
            with_token bad "$mode" "$uri" --verify-engine 1
    done
    echo "passed: tokens that are removed, fail, lie and hang"
}

# One warning says what is wrong, and the processor does all records.
token_that_is_absent() {
    local uri="token=evener?module-path=$softhsm"
    with_token absent gcm "token=evener?module-path=/nowhere/module.so"
    says '/nowhere/module.so'
    with_token absent gcm "token=enigma?module-path=$softhsm"
    says 'there are: token `evener`'
    EVENER_SHIM_SESSIONS=1 with_token absent gcm "token=evener?module-path=$work/token/shim.so"
    says 'only session'
    echo 999999 >"$work/token/pin"
    one_of_many_tries_a_wrong_pin "$uri"
    # The next process doesn't try, nor with the right one: the token would lock itself.
    echo "$PIN" >"$work/token/pin"
    with_token absent gcm "$uri"
    says 'a wrong PIN was entered before'
    "$evener" speed aes-128-cbc --engine "pkcs11:$uri&pin-source=file:$work/token/pin" --bytes 1024 \
        >"$work/output"
    with_token good gcm "$uri"
    # A PIN in the configuration is refused and not repeated.
    sed "s|^engine = .*|engine = pkcs11:$uri\&pin-value=$PIN|" "$work/token.cnf" >"$work/pin.cnf"
    OPENSSL_CONF=$work/pin.cnf afresh openssl list -providers >/dev/null 2>"$work/errors"
    cat "$work/errors" >>"$work/token/said"
    says 'put it in a file'
    echo "passed: tokens and libraries that are not there, and wrong PINs"
}

# Of processes that look for the token at the same time, one tries the PIN.
one_of_many_tries_a_wrong_pin() {
    local process processes=({1..12}) pids=()
    configure_token "$1"
    for process in "${processes[@]}"; do
        OPENSSL_CONF=$work/token.cnf timeout 300 "$work/host" module absent gcm "$certificate" "$key" \
            "$work/token/counters" >/dev/null 2>"$work/token/errors.$process" &
        pids+=($!)
    done
    for process in "${pids[@]}"; do
        wait "$process" || fail "connections with a wrong PIN, of processes at the same time"
    done
    cat "$work"/token/errors.* >"$work/errors"
    if [ "$(grep -c 'the PIN is wrong' "$work/errors")" -ne 1 ] ||
        [ "$(grep -c 'a wrong PIN was entered before' "$work/errors")" -ne $((${#processes[@]} - 1)) ]; then
        cat "$work/errors"
        fail "not just one of ${#processes[@]} processes tried a wrong PIN"
    fi
}

# The host's connections with the token of a URI, which is `good`, `bad` or `absent`; more are options
# of evener tls config. `within` is a command that starts it.
with_token() {
    local kind=$1 mode=$2
    shift 2
    configure_token "$@"
    OPENSSL_CONF=$work/token.cnf timeout 300 "${within[@]}" "$work/host" module "$kind" "$mode" \
        "$certificate" "$key" "$work/token/counters" >"$work/output" 2>"$work/errors" ||
        { cat "$work/errors"; fail "connections with a token that is $kind: $mode, $1"; }
    cat "$work/errors" >>"$work/token/said"
    "$evener" tls status --json "$work/token/counters" >>"$work/token/status"
    [ "$kind" != bad ] || says 'from now on'
}

# Has the token of a URI do records; more are options of evener tls config.
configure_token() {
    local uri=$1
    shift
    rm -f "$work/token.cnf" "$work/token/counters"
    "$evener" tls config --provider "$module" --counters "$work/token/counters" -o "$work/token.cnf" \
        --engine "pkcs11:$uri&pin-source=file:$work/token/pin" --modes gcm,cbc --crossover 1024 "$@"
}

# Whether the last process said this of its module, and no more.
says() {
    if [ "$(grep -c '^evener: provider: ' "$work/errors")" -ne 1 ] ||
        ! grep --quiet --fixed-strings -e "$1" "$work/errors"; then
        cat "$work/errors"
        fail "this is not said once: $1"
    fi
}

PIN=648219
within=()
