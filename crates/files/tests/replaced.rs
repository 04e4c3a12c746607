//! What somebody who may write to the target tree puts in the place of what was just made.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;

use common::child::{Errand, Flags, serve, shim};
use common::{bytes, home};
use evener_files::Operation;

#[test]
fn child() {
    serve();
}

/// Encrypts a tree; what is made of this name is exchanged with `other` at once.
fn encrypt(plain: &Path, sealed: &Path, name: &str, other: &Path, flags: Flags) -> Output {
    let keys = "cobblestone-256";
    let errand =
        Errand { operation: Operation::Encrypt, keys, source: plain, target: sealed, flags };
    let mut command = errand.command();
    command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NAME", name);
    command.env("EVENER_FAULT_SWAP", other).output().unwrap()
}

/// Its mode stays that which its owner has given it, whatever the source's is.
#[test]
fn a_directory_with_something_in_it_is_not_taken_for_a_new_one() {
    for name in ["/sealed", "/public"] {
        for flags in [Flags::default(), Flags { overwrite: true, ..Flags::default() }] {
            let home = home();
            let [plain, sealed, private] =
                ["plain", "sealed", "private"].map(|name| home.path().join(name));
            fs::create_dir_all(plain.join("public")).unwrap();
            fs::write(plain.join("public/file"), bytes(100)).unwrap();
            for open in [&plain, &plain.join("public")] {
                fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
            }
            fs::create_dir(&private).unwrap();
            fs::write(private.join("secret"), "secret").unwrap();
            fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
            let inode = fs::metadata(&private).unwrap().ino();

            let ended = encrypt(&plain, &sealed, name, &private, flags);
            let place =
                home.path().join(if name == "/sealed" { "sealed" } else { "sealed/public" });
            let there = fs::metadata(&place).unwrap();
            assert_eq!(there.ino(), inode, "{ended:?}");
            assert_eq!(there.permissions().mode() & 0o777, 0o700, "{ended:?}");
            assert!(place.join("secret").exists());
        }
    }
}

#[test]
fn what_takes_the_place_of_a_link_is_told() {
    let home = home();
    let [plain, sealed, other] = ["plain", "sealed", "other"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    symlink("nowhere", plain.join("link")).unwrap();
    for is_link in [true, false] {
        match is_link {
            true => symlink("elsewhere", &other).unwrap(),
            false => fs::write(&other, "other").unwrap(),
        }
        let before = fs::symlink_metadata(&other).unwrap().mtime_nsec();
        let ended = encrypt(&plain, &sealed, "/sealed/link", &other, Flags::default());
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        let told = String::from_utf8(ended.stderr).unwrap();
        assert!(told.contains("link: its output was replaced meanwhile"), "{told}");
        let after = fs::symlink_metadata(sealed.join("link")).unwrap().mtime_nsec();
        assert_eq!(before, after);
        fs::remove_dir_all(&sealed).unwrap();
        fs::remove_file(&other).unwrap();
    }
}
