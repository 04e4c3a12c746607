# Mounts the file systems that people have beside those of the kernel, for the scenes in this folder.
# tests/check-file-systems sources it.
#
# There is a function `mount_NAME` for each, which mounts it at the directory $1 with $2 as a directory
# for what lies behind it. To add one, add a function and its name with its programs to `programs_of`.

# The programs that a file system takes.
programs_of() {
    case $1 in
        local) ;;
        sshfs) echo sshfs ;;
        bindfs*) echo bindfs ;;
        mergerfs) echo mergerfs ;;
        exfat*) echo mkfs.exfat mount.exfat-fuse ;;
        ntfs_ignore_case) echo mkntfs lowntfs-3g ;;
        ntfs*) echo mkntfs ntfs-3g ;;
        vfat*) echo mkfs.vfat fusefat ;;
        rclone) echo rclone ;;
        *) return 1 ;;
    esac
}

# A directory of the file system of $TMPDIR, to compare with.
mount_local() { mount_point=$2; }

# sshfs, which speaks with OpenSSH's server of files and needs no other server.
mount_sshfs() {
    printf '#!/bin/sh\nexec "%s"\n' "$(server_of_files)" >"$work/ssh"
    chmod +x "$work/ssh"
    sshfs -o ssh_command="$work/ssh" "nowhere:$2" "$1"
}

server_of_files() {
    local path
    for path in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh /usr/libexec; do
        if [ -x "$path/sftp-server" ]; then
            echo "$path/sftp-server"
            return
        fi
    done
    echo "sftp-server is not there" >&2
    return 1
}

mount_bindfs() { bindfs "$2" "$1"; }
# Times of change are those of modification.
mount_bindfs_ctime() { bindfs --ctime-from-mtime "$2" "$1"; }
# `chmod` does nothing and says nothing.
mount_bindfs_chmod_ignore() { bindfs --chmod-ignore "$2" "$1"; }
# `chmod` fails with EPERM.
mount_bindfs_chmod_deny() { bindfs --chmod-deny "$2" "$1"; }
# The kernel remembers what files are like for a minute.
mount_bindfs_slow() { bindfs -o attr_timeout=60,entry_timeout=60 "$2" "$1"; }

mount_mergerfs() {
    mkdir -p "$2/a" "$2/b"
    mergerfs "$2/a:$2/b" "$1"
}

# Its driver takes nothing but a device, for which one has to be root.
mount_exfat() {
    local device
    truncate -s 64M "$2/image"
    mkfs.exfat "$2/image"
    device=$(losetup --find --show "$2/image")
    echo "$device" >>"$work/devices"
    mount.exfat-fuse "$device" "$1" "${@:3}"
}
# Nobody but the one who has mounted it comes in.
mount_exfat_private() { mount_exfat "$1" "$2" -o "umask=077,uid=$(id -u)"; }

mount_ntfs() {
    truncate -s 16M "$2/image"
    mkntfs --force --fast --quiet "$2/image"
    ntfs-3g "$2/image" "$1" "${@:3}"
}
# With modes of its own for each file.
mount_ntfs_permissions() { mount_ntfs "$1" "$2" -o permissions; }
# With names that are the same in capital and small letters.
mount_ntfs_ignore_case() {
    truncate -s 16M "$2/image"
    mkntfs --force --fast --quiet "$2/image"
    lowntfs-3g -o ignore_case "$2/image" "$1"
}
mount_ntfs_private() { mount_ntfs "$1" "$2" -o "umask=077,uid=$(id -u)"; }

mount_vfat() {
    truncate -s 64M "$2/image"
    mkfs.vfat "$2/image"
    fusefat -o rw+ "$2/image" "$1"
}

# Writing takes a cache, which shows other times of a file that is read before it was sent.
mount_rclone() {
    rclone mount --daemon --vfs-cache-mode writes --cache-dir "$work/cache" --config /dev/null \
        ":local:$2" "$1"
}

# Mounts a file system and sets `mount_point`; a second time it is there already. Where that can't be done
# it says why, and fails.
mount_once() {
    local name=$1 program
    mount_point=$work/$name
    if [ -e "$work/$name.refused" ]; then return 1; fi
    if [ -e "$work/$name.mounted" ]; then
        mount_point=$(<"$work/$name.mounted")
        return
    fi
    for program in $(programs_of "$name"); do
        if ! command -v "$program" >/dev/null; then
            touch "$work/$name.refused"
            scripts/lack "file system $name: $program is not there" || exit 1
            return 1
        fi
    done
    mkdir "$mount_point" "$work/$name.behind"
    if ! "mount_$name" "$mount_point" "$work/$name.behind" >"$work/$name.log" 2>&1 </dev/null ||
        ! touch "$mount_point/there" 2>>"$work/$name.log"; then
        touch "$work/$name.refused"
        scripts/skip "file system $name: it can't be mounted: $(tail -n 1 "$work/$name.log")"
        return 1
    fi
    rm -f "$mount_point/there"
    echo "$mount_point" >"$work/$name.mounted"
}

# Unmounts everything, also what a scene that has failed left open.
unmount_all() {
    local point device
    for point in "$work"/*/; do
        point=${point%/}
        if ! mountpoint -q "$point"; then continue; fi
        fusermount3 -u "$point" 2>/dev/null || umount "$point" 2>/dev/null ||
            fusermount3 -uz "$point" 2>/dev/null || umount -l "$point"
    done
    if [ ! -e "$work/devices" ]; then return; fi
    while read -r device; do losetup --detach "$device" || true; done <"$work/devices"
}
