//! No path leads out of its directory, by either resolver.

use std::os::unix::fs::symlink;

use super::super::abi::oflags;
use super::*;

/// A directory with a secret beside it and every kind of link towards it.
fn with_links(resolver: Resolver) -> (TempDir, Process) {
    in_directory(false, resolver, |path| {
        std::fs::write(path.parent().unwrap().join("secret"), "secret").unwrap();
        std::fs::create_dir_all(path.join("a/b")).unwrap();
        std::fs::write(path.join("file"), "file").unwrap();
        std::fs::write(path.join("a/b/deep"), "deep").unwrap();
        let file = path.join("file");
        let links = [
            ("out", "../secret"),
            ("a/out", "../../secret"),
            ("up", ".."),
            ("absolute", "/etc"),
            ("absolute-file", "/etc/passwd"),
            ("absolute-in", file.to_str().unwrap()),
            ("loop", "loop"),
            ("ping", "pong"),
            ("pong", "ping"),
            ("dangling", "nothing"),
            ("dangling-out", "../new"),
            ("good", "a/b"),
            ("a/good", "../file"),
            ("chain", "good/../b/deep"),
            ("slashed", "a/b/"),
        ];
        for (link, target) in links {
            symlink(target, path.join(link)).unwrap();
        }
    })
}

fn each(check: impl Fn(&Path, &Process)) {
    for resolver in RESOLVERS {
        let (outer, process) = with_links(resolver);
        check(outer.path(), &process);
        assert_eq!(std::fs::read(outer.path().join("secret")).unwrap(), b"secret", "{resolver:?}");
        assert!(!outer.path().join("new").exists(), "{resolver:?}");
    }
}

#[test]
fn the_kernel_helps_here() {
    // Without this the first resolver of every other test would be the second in disguise.
    assert_eq!(Resolver::detect(), Resolver::Kernel);
}

#[test]
fn paths_that_lead_out_are_refused() {
    each(|outer, process| {
        let inside = outer.join("inside/file");
        for path in [
            "..",
            "../",
            "../secret",
            "../inside/file",
            "a/../../secret",
            "a/b/../../../secret",
            "./../secret",
            "a/./../.././secret",
            "up",
            "up/secret",
            "up/",
            "out",
            "a/out",
            "good/../out",
            "absolute",
            "absolute/passwd",
            "absolute-file",
            "absolute-in",
            "/",
            "//",
            "/file",
            "/etc/passwd",
            inside.to_str().unwrap(),
        ] {
            assert_eq!(process.open(path), Err(Errno::Perm), "open {path}");
            assert_eq!(process.stat(path, true), Err(Errno::Perm), "stat {path}");
            for flags in [oflags::CREAT, oflags::TRUNC, oflags::CREAT | oflags::TRUNC] {
                let opened = process.open_as(3, path, true, flags, READ | WRITE, 0);
                assert!(matches!(opened, Err(Errno::Perm | Errno::IsDir)), "open {path} with {flags}: {opened:?}");
            }
        }
        assert_eq!(process.open_as(3, "dangling-out", true, oflags::CREAT, WRITE, 0), Err(Errno::Perm));
    });
}

#[test]
fn paths_that_stay_inside_are_found() {
    each(|_, process| {
        for (path, contents) in [
            ("file", "file"),
            (".//file", "file"),
            ("a/../file", "file"),
            ("a/b/../../file", "file"),
            ("a/good", "file"),
            ("good/deep", "deep"),
            ("chain", "deep"),
            ("slashed/deep", "deep"),
            ("good/../b/deep", "deep"),
        ] {
            let fd = process.open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(process.read(fd, 9).unwrap(), contents.as_bytes(), "{path}");
            assert_eq!(process.stat(path, true).unwrap(), (4, 4), "{path}");
        }
        for path in [".", "./", "a/", "a/b/..", "a/..", "good", "good/", "good/..", "slashed", "slashed/", "a/b//"] {
            let fd = process.open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            process.call().fd_close(fd).unwrap();
            assert_eq!(process.stat(path, true).unwrap().0, 3, "{path}");
        }
    });
}

#[test]
fn a_link_is_followed_only_if_asked() {
    each(|_, process| {
        for link in ["good", "out", "absolute", "loop", "dangling"] {
            assert_eq!(process.open_as(3, link, false, 0, READ, 0), Err(Errno::Loop), "{link}");
            assert_eq!(process.open_as(3, link, false, oflags::DIRECTORY, READ, 0), Err(Errno::NotDir), "{link}");
            assert_eq!(process.stat(link, false).unwrap().0, 7, "{link}");
        }
        assert_eq!(process.stat("good/", false).unwrap().0, 3, "a slash follows");
        assert_eq!(process.stat("out/", false), Err(Errno::Perm));
        assert!(process.open_as(3, "good/", false, 0, READ, 0).is_ok());
    });
}

#[test]
fn loops_and_dangling_links_end() {
    each(|_, process| {
        for path in ["loop", "loop/x", "ping", "ping/", "a/../pong"] {
            assert_eq!(process.open(path), Err(Errno::Loop), "{path}");
            assert_eq!(process.stat(path, true), Err(Errno::Loop), "{path}");
        }
        assert_eq!(process.open("dangling"), Err(Errno::NoEnt));
        assert_eq!(process.stat("dangling", true), Err(Errno::NoEnt));
        let exclusive = process.open_as(3, "dangling", true, oflags::CREAT | oflags::EXCL, WRITE, 0);
        assert_eq!(exclusive, Err(Errno::Exist), "the link itself is there");
        assert!(process.open_as(3, "dangling", true, oflags::CREAT, WRITE, 0).is_ok(), "creates the target");
        assert_eq!(process.stat("nothing", false).unwrap(), (4, 0));
    });
}

#[test]
fn a_slash_behind_a_file_is_not_a_file() {
    each(|_, process| {
        for path in ["file/", "file//", "file/.", "file/x", "a/good/", "file/.."] {
            assert_eq!(process.open(path), Err(Errno::NotDir), "{path}");
            assert_eq!(process.stat(path, true), Err(Errno::NotDir), "{path}");
        }
        for flags in [oflags::CREAT, oflags::TRUNC, oflags::CREAT | oflags::TRUNC] {
            assert!(process.open_as(3, "file/", true, flags, WRITE, 0).is_err());
        }
        assert_eq!(process.stat("file", false).unwrap(), (4, 4), "not truncated");
        assert_eq!(process.open_as(3, "new/", true, oflags::CREAT, WRITE, 0), Err(Errno::IsDir));
        assert_eq!(process.open("missing/"), Err(Errno::NoEnt));
    });
}

#[test]
fn paths_are_text_of_bounded_length() {
    each(|_, process| {
        let (call, guest) = (process.call(), &process.guest);
        let out = guest.space(64);
        assert_eq!(process.open(""), Err(Errno::NoEnt));
        assert_eq!(process.open("file\0"), Err(Errno::Inval));
        assert_eq!(process.open(&"a/".repeat(2049)), Err(Errno::NameTooLong));
        let bad = guest.put(b"a\xff");
        assert_eq!(call.path_filestat_get(3, 0, bad, 2, out), Err(Errno::IlSeq));
        assert_eq!(call.path_filestat_get(3, 0, 0, u64::from(u32::MAX), out), Err(Errno::Fault));
        assert_eq!(call.path_filestat_get(3, 0, u64::from(u32::MAX), 1, out), Err(Errno::Fault));
    });
}

#[test]
fn nested_directories_are_roots_of_their_own() {
    each(|_, process| {
        let a = process.open_as(3, "a", true, oflags::DIRECTORY, READ, 0).unwrap();
        assert_eq!(process.open_as(a, "../file", true, 0, READ, 0), Err(Errno::Perm));
        assert_eq!(process.open_as(a, "good", true, 0, READ, 0), Err(Errno::Perm));
        assert!(process.open_as(a, "b/deep", true, 0, READ, 0).is_ok());
    });
}

/// Opens and looks at `paths` again and again while `disturb` changes what they lead to; nothing of the secret, 6 bytes
/// beside the directory, may show.
fn undisturbed(resolver: Resolver, paths: &[&str], disturb: impl Fn(&Path) + Sync) {
    let (outer, process) = with_links(resolver);
    std::fs::create_dir(outer.path().join("outside")).unwrap();
    std::fs::write(outer.path().join("outside/deep"), "secret").unwrap();
    let inside = outer.path().join("inside");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                disturb(&inside);
            }
        });
        let look = || {
            for path in paths {
                if let Ok(fd) = process.open(path) {
                    let seen = process.read(fd, 9);
                    process.call().fd_close(fd).unwrap();
                    if seen.as_deref() == Ok(b"secret") {
                        return Err(format!("{resolver:?} opened {path}"));
                    }
                }
                if matches!(process.stat(path, true), Ok((4, 6))) {
                    return Err(format!("{resolver:?} looked at {path}"));
                }
            }
            Ok(())
        };
        let outcome = (0..2000).try_for_each(|_| look());
        stop.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
}

#[test]
fn a_directory_that_moves_meanwhile_gives_no_way_out() {
    for resolver in RESOLVERS {
        let paths = ["racy", "racy/deep", "racy/../../secret", "racy/b/../../../secret"];
        undisturbed(resolver, &paths, |inside| {
            // `racy` is a directory, a link out, and missing, in turns.
            let racy = inside.join("racy");
            std::fs::rename(inside.join("a"), &racy).unwrap();
            std::fs::rename(&racy, inside.join("a")).unwrap();
            symlink("../outside", &racy).unwrap();
            std::fs::remove_file(&racy).unwrap();
        });
    }
}

#[test]
fn a_file_that_becomes_a_link_meanwhile_is_not_followed_out() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    for resolver in RESOLVERS {
        undisturbed(resolver, &["file"], |inside| {
            // Each name is there all the time: now a file, now a link out.
            renameat_with(CWD, inside.join("file"), CWD, inside.join("out"), RenameFlags::EXCHANGE).unwrap();
        });
    }
}
