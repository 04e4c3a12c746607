# Where unfinished files have names, the next run removes those of a killed one, whatever it makes.
file_systems="bindfs ntfs"

scene() {
    local left=$there/.evener-0123456789abcdef.part
    mkdir plain
    echo one | tee plain/one >plain/two
    touch "$left"
    run 0 encrypt -k "$key" plain/one "$there/one.enc"
    [ ! -e "$left" ] || fail "a file's run has kept it"
    touch "$left"
    "$evener" encrypt -qk "$key" - "$there/piped.enc" <plain/one
    [ ! -e "$left" ] || fail "a pipe's run has kept it"
    touch "$left"
    run 0 encrypt -k "$key" plain/one plain/two "$there/both/"
    [ -e "$left" ] || fail "a run elsewhere has removed it"
    run 0 encrypt -k "$key" plain/two "$there"
    [ ! -e "$left" ] || fail "a file in a directory has kept it"
}
