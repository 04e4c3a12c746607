# Servers of Debian's with Evener, for tests/check-tls: each is started as it is, serves clients
# with and without Evener, and is stopped. Where root runs this, they change to the user `nobody`,
# some in a root directory of their own. Debian's packages are only unpacked where they aren't
# installed: an installation would start a server.

servers() {
    if ! scripts/provide curl curl || ! find_servers; then
        scripts/lack "TLS provider in servers: curl, nginx, HAProxy or stunnel can't be had"
        return
    fi
    # Short, as names of sockets have to be, and open to the servers' user.
    run=$(mktemp -d "${TMPDIR:-/tmp}/evener-tls.XXXXXX")
    chmod 711 "$run"
    chmod 755 "$work/prefix" "$work/prefix/lib"
    cat "$certificate" "$key" >"$run/both.pem"
    mkdir -m 755 "$run/www"
    for size in 0 1 15 16 17 1024 16383 16384 16385 3000000; do
        head -c "$size" /dev/urandom >"$run/www/$size"
        chmod 644 "$run/www/$size"
    done
    curl=(--silent --show-error --fail --max-time 60 --cacert "$certificate")
    user_lines=([nginx]="" [haproxy]="" [stunnel]="")
    if [ "$(id -u)" -eq 0 ]; then
        user_lines=([nginx]="user nobody nogroup;"
            [haproxy]="user nobody
    group nogroup
    chroot $run"
            [stunnel]="setuid = nobody
setgid = nogroup
chroot = $run")
    fi
    try_nginx
    try_bench
    try_haproxy
    try_stunnel
    try_postgresql
    stop_servers
}

declare -A user_lines

find_servers() {
    local root=$unpacked/debian missing=() program package
    local path=$PATH:/usr/sbin
    for program in nginx haproxy stunnel4; do
        PATH=$path command -v "$program" >/dev/null || missing+=("$program")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        tests/tls/unpack "$root" "$(codename)" "${missing[@]}" liblua5.3-0 \
            libopentracing-c-wrapper0 libopentracing1 libwrap0 >"$work/output" 2>&1 || return
        path=$path:$root/usr/sbin:$root/usr/bin
        libraries=$(dirname "$(find "$root/usr/lib" -name 'libwrap.so.0')")
    fi
    nginx_program=$(PATH=$path command -v nginx)
    haproxy_program=$(PATH=$path command -v haproxy)
    stunnel_program=$(PATH=$path command -v stunnel4)
}

# Runs a program with Evener, whose records are counted in $run/NAME; and with what is unpacked.
with_evener() {
    local name=$1
    shift
    if [ ! -e "$run/$name.cnf" ]; then
        "$evener" tls config --provider "$module" --counters "$run/$name" -o "$run/$name.cnf"
    fi
    LD_LIBRARY_PATH=${libraries:-} OPENSSL_CONF=$run/$name.cnf "$@"
}

# A port of this machine that nobody listens at.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# The process whose number a server has written to $run/NAME.pid.
process_of() {
    cat "$run/$1.pid" 2>/dev/null
}

# Waits until a command succeeds, for half a minute.
wait_for() {
    for _ in $(seq 600); do
        if "$@" 2>/dev/null >&2; then return 0; fi
        sleep 0.05
    done
    fail "this did not come true: $*"
}

# Ends the servers that run, and takes their files away.
stop_servers() {
    local name process
    if [ -z "${run:-}" ]; then return 0; fi
    for name in stunnel-client stunnel haproxy nginx postgresql; do
        if process=$(process_of "$name" | head -n 1) && [ -n "$process" ]; then
            kill -TERM "$process" 2>/dev/null || true
            wait_for gone "$process"
            rm -f "$run/$name.pid"
        fi
    done
}

gone() {
    ! kill -0 "$1"
}

forget_servers() {
    stop_servers
    if [ -n "${run:-}" ]; then rm -rf "$run"; fi
}

# Gets the file of so many bytes by a curl without Evener, with more options.
fetch() {
    local size=$1
    shift
    curl "${curl[@]}" "$@" -o "$work/fetched.$size" "https://localhost/$size" || return 1
    cmp "$work/fetched.$size" "$run/www/$size"
}

# All sizes by TLS 1.2 and 1.3, by more options.
fetch_all() {
    local version size
    for version in 1.2 1.3; do
        for size in 0 1 15 16 17 16383 16384 16385 3000000; do
            fetch "$size" --tls-max "$version" --tlsv1.2 "$@"
        done
    done
}

# Whether Evener has done so many bytes for a server: `has_done NAME encrypted BYTES`.
has_done() {
    [ "$(count "${2}_bytes" "$run/$1")" -ge "$3" ] ||
        fail "Evener has not $2 what $1 $(if [ "$2" = encrypted ]; then echo sent; else echo got; fi)"
}

try_nginx() {
    cat >"$run/nginx.conf" <<END
${user_lines[nginx]}
worker_processes 2;
pid $run/nginx.pid;
error_log $run/nginx.log notice;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path $run/body;
    proxy_temp_path $run/proxy;
    fastcgi_temp_path $run/fastcgi;
    uwsgi_temp_path $run/uwsgi;
    scgi_temp_path $run/scgi;
    server {
        listen unix:$run/nginx.tls ssl;
        listen unix:$run/nginx.plain;
        ssl_certificate $certificate;
        ssl_certificate_key $key;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256;
        root $run/www;
    }
}
END
    with_evener nginx "$nginx_program" -e "$run/nginx.log" -p "$run" -c "$run/nginx.conf" ||
        { cat "$run/nginx.log"; fail "nginx does not start"; }
    local by=(--unix-socket "$run/nginx.tls")
    fetch_all "${by[@]}"
    has_done nginx encrypted 6098402
    # Both ends with Evener.
    "$evener" tls check --provider "$module" curl "${curl[@]}" "${by[@]}" -o "$work/got" \
        https://localhost/3000000 >"$work/output" 2>"$work/errors" || fail "curl did not use Evener"
    [ ! -s "$work/output" ] || fail "evener tls check writes into the program's output"
    grep --quiet 'Evener did [1-9]' "$work/errors" || fail "evener tls check says nothing"
    cmp "$work/got" "$run/www/3000000"
    # A program without TLS.
    if "$evener" tls check --provider "$module" true 2>"$work/errors"; then
        fail "evener tls check says that a program without TLS uses Evener"
    fi
    # What asks it to end asks the program, and what that did is said.
    mkdir "$work/temporary"
    local status=0
    TMPDIR=$work/temporary "$evener" tls check --provider "$module" sh -c 'openssl enc -aes-128-ctr \
        -K 00 -iv 00 -in "$0" -out /dev/null; kill -TERM $PPID; sleep 100' "$0" 2>"$work/errors" ||
        status=$?
    [ "$status" = 130 ] || fail "evener tls check ended with $status for a program that was ended"
    grep --quiet interrupted "$work/errors" || fail "evener tls check does not pass SIGTERM on"
    rmdir "$work/temporary" || fail "evener tls check leaves its files behind"
    running_nginx
    echo "passed: curl and nginx"
    reloads "$(if [ -n "$long" ]; then echo 1000; else echo 40; fi)"
}

# What is said of nginx as it runs, with and without Evener.
running_nginx() {
    local processes status=0
    processes=$(pgrep -d , -f "nginx: .*$run/nginx.conf|nginx: worker" -s "$(process_of nginx)")
    "$evener" tls check --pid "$processes" >"$work/output" || fail "evener tls check --pid does not find Evener"
    grep --quiet "^nginx, 3 processes\$" "$work/output" &&
        grep --quiet "^  counted: [1-9][0-9]* records with [1-9][0-9]* bytes in $run/nginx\$" "$work/output" ||
        { cat "$work/output"; fail "evener tls check --pid does not say what nginx counts"; }
    sleep 60 &
    "$evener" tls check --pid "$!" >"$work/output" 2>"$work/errors" || status=$?
    kill "$!"
    [ "$status" = 1 ] || fail "evener tls check --pid says that a program without TLS has Evener"
    "$evener" tls status --program nginx "$run/nginx" >"$work/output"
    [ "$(wc -l <"$work/output")" -eq 2 ] && grep --quiet '^nginx  .* ago$' "$work/output" ||
        fail "evener tls status has not one row for nginx"
    "$evener" tls status --all "$run/nginx" >"$work/output"
    [ "$(wc -l <"$work/output")" -gt 2 ] || fail "evener tls status --all has not a row for each worker"
    "$evener" tls status --program other "$run/nginx" >"$work/output"
    grep --quiet '^nothing counted yet of other: ' "$work/output" || fail "a program without TLS is counted"
    "$evener" tls status --prometheus "$run/nginx" >"$work/output"
    grep --quiet '^evener_tls_bytes_total{program="nginx",direction="encrypted"} [1-9]' "$work/output" ||
        fail "evener tls status --prometheus does not name nginx"
}

# Everybody who is served while nginx loads its configuration again and again gets all; no worker
# crashes, and the master keeps no descriptor and no mapping more.
reloads() {
    local before kept fetched=0 master
    master=$(process_of nginx)
    kept=$(kept_by "$master")
    before=$(count encrypted_records "$run/nginx")
    rm -f "$work/stop" "$work/fetched"
    (
        while [ ! -e "$work/stop" ]; do
            fetch 3000000 --tls-max 1.3 --unix-socket "$run/nginx.tls" || exit 1
            echo >>"$work/fetched"
        done
    ) &
    local client=$!
    for _ in $(seq "$1"); do
        kill -HUP "$master"
        sleep 0.05
    done
    touch "$work/stop"
    wait "$client" || fail "a client was not served while nginx loaded its configuration"
    fetched=$(wc -l <"$work/fetched")
    [ "$(count encrypted_records "$run/nginx")" -gt $((before + fetched)) ] || fail "nginx left Evener"
    if grep -E '\[(alert|emerg|crit)\]|exited on signal' "$run/nginx.log"; then
        fail "nginx complains"
    fi
    wait_for keeps_only "$master" "$kept"
    echo "passed: $1 reloads of nginx, with $fetched files fetched meanwhile; it keeps $kept descriptors and mappings of Evener"
}

# How many descriptors a process has, and how many mappings of the provider and its counters.
kept_by() {
    echo "$(find "/proc/$1/fd" -type l | wc -l)+$(grep -c "$run/nginx\|evener.so" "/proc/$1/maps")"
}

keeps_only() {
    [ "$(kept_by "$1")" = "$2" ]
}

# `evener-lab bench tls`, as small as can be: every cipher, version and kind of connection.
try_bench() {
    local bench=(env "TMPDIR=$run" "LD_LIBRARY_PATH=${libraries:-}" "$built/evener-lab" bench tls
        --program "$nginx_program" --evener "$evener" --rounds 1 --seconds 0.02 --bytes 1024,16384
        --connections 2)
    with_evener bench true
    "${bench[@]}" --provider "$module" --contender evener \
        --contender "again=$run/bench.cnf" --cipher aes-128-gcm,aes-256-gcm --tls 1.2,1.3 --starts 3 \
        --json >"$work/measured.json" 2>"$work/errors" || { cat "$work/errors"; fail "evener-lab bench tls"; }
    [ "$(grep -c '"contender": "evener"' "$work/measured.json")" -eq 17 ] ||
        fail "evener-lab bench tls does not measure all cases"
    "$built/evener-lab" bench tls --from "$work/measured.json" --html "$work/measured.html" >"$work/output"
    grep --quiet 'aes-256-gcm, TLS 1.2, keep-alive' "$work/output" &&
        grep --quiet 'more than default' "$work/output" && grep --quiet '</html>' "$work/measured.html" ||
        fail "evener-lab bench tls does not show what it measured"
    # One whose configuration leaves the records to OpenSSL's own ciphers.
    sed '/^evener = /d; /^default_properties/d' "$run/bench.cnf" >"$run/idle.cnf"
    if "${bench[@]}" --contender "idle=$run/idle.cnf" --starts 0 \
        >"$work/output" 2>"$work/errors"; then
        fail "evener-lab bench tls measures a provider that does nothing"
    fi
    grep --quiet '^evener-lab: idle: the provider encrypted 0 of ' "$work/errors" ||
        { cat "$work/errors"; fail "evener-lab bench tls does not say that the provider does nothing"; }
    if pgrep -f "$run/evener-bench-" >"$work/output"; then
        fail "evener-lab bench tls left an nginx: $(cat "$work/output")"
    fi
    echo "passed: evener-lab bench tls"
}

# A master whose worker has several threads, another root and another user. It decrypts what
# clients send and encrypts it again for nginx.
try_haproxy() {
    local to=$run/nginx.tls
    if [ "$(id -u)" -eq 0 ]; then to=/nginx.tls; fi
    cat >"$run/haproxy.cfg" <<END
global
    ${user_lines[haproxy]}
    nbthread 2
    pidfile $run/haproxy.pid
defaults
    mode http
    timeout connect 30s
    timeout client 60s
    timeout server 60s
frontend tls
    bind unix@$run/haproxy.tls mode 666 ssl crt $run/both.pem
    default_backend nginx
backend nginx
    server nginx unix@$to ssl verify none
END
    with_evener haproxy "$haproxy_program" -D -W -f "$run/haproxy.cfg" >"$work/errors" 2>&1 ||
        { cat "$work/errors"; fail "HAProxy does not start"; }
    fetch_all --unix-socket "$run/haproxy.tls"
    has_done haproxy encrypted 6098402
    has_done haproxy decrypted 6098402
    # Another worker takes over while files are fetched. The master stays, and writes its file anew each time.
    local master
    master=$(process_of haproxy | head -n 1)
    for _ in 1 2 3 4 5; do
        kill -USR2 "$master"
        fetch 3000000 --unix-socket "$run/haproxy.tls" --retry 20 --retry-all-errors --retry-delay 1
    done
    has_done haproxy encrypted 21098402
    echo "passed: HAProxy at either end, with 5 reloads"
}

# One that takes TLS off, and one that puts it on.
try_stunnel() {
    local port other root=$run
    port=$(free_port)
    other=$(free_port)
    if [ "$(id -u)" -eq 0 ]; then root=; fi
    cat >"$run/stunnel.conf" <<END
${user_lines[stunnel]}
pid = $root/stunnel-own/pid
output = $root/stunnel-own/log
[nginx]
accept = 127.0.0.1:$port
connect = $root/nginx.plain
cert = $run/both.pem
ciphers = ECDHE-ECDSA-AES256-GCM-SHA384
END
    cat >"$run/stunnel-client.conf" <<END
pid = $run/stunnel-client.pid
output = $run/stunnel-client.log
[curl]
client = yes
accept = 127.0.0.1:$other
connect = 127.0.0.1:$port
CAfile = $certificate
verifyChain = yes
checkHost = localhost
END
    # It makes its files as its user.
    mkdir "$run/stunnel-own"
    if [ "$(id -u)" -eq 0 ]; then chown nobody "$run/stunnel-own"; fi
    local name
    for name in stunnel stunnel-client; do
        with_evener "$name" "$stunnel_program" "$run/$name.conf" >"$work/errors" 2>&1 ||
            { cat "$work/errors"; fail "stunnel does not start"; }
    done
    wait_for test -s "$run/stunnel-own/pid"
    cp "$run/stunnel-own/pid" "$run/stunnel.pid"
    fetch_all --connect-to "localhost:443:127.0.0.1:$port"
    curl "${curl[@]}" -o "$work/got" "http://127.0.0.1:$other/3000000"
    cmp "$work/got" "$run/www/3000000"
    has_done stunnel encrypted 9098402
    has_done stunnel-client decrypted 3000000
    echo "passed: stunnel at either end"
}

# A process for each session. It doesn't run as root.
try_postgresql() {
    local programs as=() port
    programs=$(find_postgresql) || {
        scripts/lack "TLS provider in PostgreSQL: it can't be had"
        return
    }
    port=$(free_port)
    mkdir -m 711 "$run/postgresql"
    cp "$certificate" "$run/postgresql/certificate.pem"
    cp "$key" "$run/postgresql/key.pem"
    install -m 755 "$module" "$run/postgresql/evener.so"
    if [ "$(id -u)" -eq 0 ]; then
        chown -R nobody:nogroup "$run/postgresql"
        as=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
    fi
    "$evener" tls config --provider "$run/postgresql/evener.so" --counters "$run/postgresql/counters" \
        -o "$run/postgresql.cnf"
    (
        cd "$run/postgresql"
        export LD_LIBRARY_PATH=${libraries:-} OPENSSL_CONF=$run/postgresql.cnf LC_ALL=C
        umask 077
        "${as[@]}" "$programs/initdb" --no-sync --auth=trust --username=test data
        cat >>data/postgresql.conf <<END
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = ''
external_pid_file = '$run/postgresql/pid'
ssl = on
ssl_cert_file = '$run/postgresql/certificate.pem'
ssl_key_file = '$run/postgresql/key.pem'
fsync = off
END
        echo 'hostssl all all 127.0.0.1/32 trust' >data/pg_hba.conf
        "${as[@]}" "$programs/pg_ctl" -D data -l log -w start
    ) >"$work/output" 2>&1 ||
        { cat "$work/output" "$run/postgresql/log"; fail "PostgreSQL does not start"; }
    cp "$run/postgresql/pid" "$run/postgresql.pid"
    local at="host=localhost hostaddr=127.0.0.1 port=$port user=test dbname=postgres
        sslmode=verify-full sslrootcert=$certificate" clients=() client
    # One of ten clients at once has Evener too.
    for client in $(seq 10); do
        ask "$programs/psql" "$client" "$at" &
        clients+=($!)
    done
    for client in "${clients[@]}"; do
        wait "$client" || fail "a client of PostgreSQL did not get what it asked for"
    done
    has_done postgresql/counters encrypted 30000000
    has_done postgresql/counters decrypted 10000000
    has_done psql decrypted 3000000
    echo "passed: PostgreSQL with 10 clients"
}

# Sends a MB, and gets 3 MB back.
ask() {
    local psql=$1 client=$2 at=$3 text got query
    text=$(head -c 500000 /dev/urandom | od -An -v -tx1 | tr -d ' \n')
    query="select repeat('$text', 3)"
    if [ "$client" -eq 1 ]; then
        got=$(with_evener psql "$psql" -X -A -t "$at" <<<"$query")
    else
        got=$("$psql" -X -A -t "$at" <<<"$query")
    fi
    [ "$got" = "$text$text$text" ]
}

# Where PostgreSQL's programs are.
find_postgresql() {
    local root=$unpacked/debian programs
    programs=$(find /usr/lib/postgresql -name initdb 2>/dev/null | sort -V | tail -n 1)
    if [ -z "$programs" ]; then
        tests/tls/unpack "$root" "$(codename)" postgresql-15 postgresql-client-15 libpq5 \
            >"$work/output" 2>&1 || return
        programs=$(find "$root/usr/lib/postgresql" -name initdb)
    fi
    dirname "${programs:?}"
}
