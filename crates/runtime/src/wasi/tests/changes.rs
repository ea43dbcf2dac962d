//! Calls that change a file system: done where allowed, refused through a read-only directory.

use super::super::abi::oflags;
use super::*;

/// Directory `d`, file `f`, link `l` to `f`.
fn with_entries(read_only: bool, resolver: Resolver) -> (TempDir, Process) {
    in_directory(read_only, resolver, |path| {
        std::fs::create_dir(path.join("d")).unwrap();
        std::fs::write(path.join("f"), "file").unwrap();
        std::os::unix::fs::symlink("f", path.join("l")).unwrap();
    })
}

fn each(check: impl Fn(&Process)) {
    for resolver in RESOLVERS {
        check(&with_entries(false, resolver).1);
    }
}

impl Process {
    fn mkdir(&self, path: &str) -> Result<()> {
        let (at, length) = self.path(path);
        self.call().path_create_directory(3, at, length)
    }

    fn rmdir(&self, path: &str) -> Result<()> {
        let (at, length) = self.path(path);
        self.call().path_remove_directory(3, at, length)
    }

    fn unlink(&self, path: &str) -> Result<()> {
        let (at, length) = self.path(path);
        self.call().path_unlink_file(3, at, length)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let ((a, a_length), (b, b_length)) = (self.path(from), self.path(to));
        self.call().path_rename(3, a, a_length, 3, b, b_length)
    }

    fn link(&self, from: &str, to: &str, follow: bool) -> Result<()> {
        let ((a, a_length), (b, b_length)) = (self.path(from), self.path(to));
        self.call().path_link(3, u32::from(follow), a, a_length, 3, b, b_length)
    }

    fn symlink(&self, target: &str, link: &str) -> Result<()> {
        let ((a, a_length), (b, b_length)) = (self.path(target), self.path(link));
        self.call().path_symlink(a, a_length, 3, b, b_length)
    }

    fn readlink(&self, path: &str, room: u64) -> Result<Vec<u8>> {
        let (at, length) = self.path(path);
        let (buffer, used) = (self.guest.space(64), self.guest.space(4));
        self.call().path_readlink(3, at, length, buffer, room, used)?;
        Ok(self.guest.get(buffer, self.guest.u32(used) as usize))
    }

    fn set_times(&self, path: &str, follow: bool, modified: u64) -> Result<()> {
        let (at, length) = self.path(path);
        self.call().path_filestat_set_times(3, u32::from(follow), at, length, 0, modified, 4)
    }
}

#[test]
fn a_read_only_directory_stays_as_it_is() {
    for resolver in RESOLVERS {
        let (outer, process) = with_entries(true, resolver);
        let refused = Err(Errno::RoFs);
        assert_eq!(process.mkdir("new"), refused);
        assert_eq!(process.rmdir("d"), refused);
        assert_eq!(process.unlink("f"), refused);
        assert_eq!(process.rename("f", "g"), refused);
        assert_eq!(process.link("f", "g", false), refused);
        assert_eq!(process.symlink("f", "g"), refused);
        assert_eq!(process.set_times("f", true, 1), refused);
        for (path, open, rights, expected) in [
            ("f", 0, WRITE, Err(Errno::RoFs)),
            ("f", 0, READ | WRITE, Err(Errno::RoFs)),
            ("f", oflags::TRUNC, READ, Err(Errno::RoFs)),
            ("l", oflags::TRUNC, 0, Err(Errno::RoFs)),
            ("new", oflags::CREAT, READ, Err(Errno::RoFs)),
            ("new", 0, WRITE, Err(Errno::NoEnt)),
            ("f", oflags::CREAT | oflags::EXCL, READ, Err(Errno::Exist)),
            ("d", 0, READ | WRITE, Err(Errno::IsDir)),
            ("../f", oflags::CREAT, READ, Err(Errno::Perm)),
        ] {
            assert_eq!(process.open_as(3, path, true, open, rights, 0), expected, "{path} {open} {rights}");
        }
        let fd = process.open_as(3, "f", true, oflags::CREAT, READ, 0).unwrap();
        assert_eq!(process.read(fd, 9).unwrap(), b"file");
        assert_eq!(process.call().fd_filestat_set_times(fd, 0, 1, 4), refused);
        assert_eq!(process.call().fd_filestat_set_times(3, 0, 1, 4), refused);
        assert_eq!(process.call().fd_filestat_set_size(fd, 0), Err(Errno::BadF));
        assert_eq!(process.call().fd_allocate(fd, 0, 100), Err(Errno::BadF));
        let d = process.open("d").unwrap();
        assert_eq!(
            process.open_as(d, "new", true, oflags::CREAT, WRITE, 0),
            Err(Errno::RoFs),
            "directories inside too"
        );
        let mut names: Vec<_> =
            std::fs::read_dir(outer.path().join("inside")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["d", "f", "l"]);
        assert_eq!(std::fs::read(outer.path().join("inside/f")).unwrap(), b"file");
        assert_eq!(process.readlink("l", 9).unwrap(), b"f");
    }
}

#[test]
fn nothing_gets_out_of_a_read_only_directory_to_be_changed_elsewhere() {
    for resolver in RESOLVERS {
        let (outer, process) = with_entries(true, resolver);
        let builder = WasiCtx::builder().preopen(outer.path().join("inside"), "/read-only", true).preopen(
            outer.path(),
            "/writable",
            false,
        );
        let mut process = Process { wasi: builder.build().unwrap(), ..process };
        process.wasi.resolver = resolver;
        let ((from, length), (to, to_length)) = (process.path("f"), process.path("g"));
        assert_eq!(process.call().path_link(3, 0, from, length, 4, to, to_length), Err(Errno::RoFs));
        assert_eq!(process.call().path_rename(3, from, length, 4, to, to_length), Err(Errno::RoFs));
        std::fs::write(outer.path().join("f"), "").unwrap();
        assert_eq!(process.call().path_link(4, 0, from, length, 3, to, to_length), Err(Errno::RoFs));
        assert_eq!(process.call().path_rename(4, from, length, 3, to, to_length), Err(Errno::RoFs));
    }
}

#[test]
fn creating_and_truncating() {
    each(|process| {
        let fd = process.open_as(3, "new", false, oflags::CREAT | oflags::EXCL, READ | WRITE, 0).unwrap();
        process.write(fd, b"content").unwrap();
        assert_eq!(process.open_as(3, "new", false, oflags::CREAT | oflags::EXCL, READ, 0), Err(Errno::Exist));
        assert_eq!(process.open_as(3, "l", true, oflags::CREAT | oflags::EXCL, READ, 0), Err(Errno::Exist));
        assert_eq!(process.stat("new", false).unwrap(), (4, 7));
        process.open_as(3, "new", false, oflags::TRUNC, WRITE, 0).unwrap();
        assert_eq!(process.stat("new", false).unwrap(), (4, 0));
        assert_eq!(process.open_as(3, "d", false, oflags::CREAT | oflags::DIRECTORY, READ, 0), Err(Errno::Inval));
        assert_eq!(process.open_as(3, "d", false, oflags::DIRECTORY, READ | WRITE, 0), Err(Errno::IsDir));
        assert_eq!(process.open_as(3, "f", false, oflags::DIRECTORY, READ, 0), Err(Errno::NotDir));
        assert_eq!(process.open_as(3, "f", false, 16, READ, 0), Err(Errno::Inval));
        assert_eq!(process.open_as(3, "f", false, 0, READ, 32), Err(Errno::Inval));
    });
}

#[test]
fn a_dropped_right_to_truncate_is_gone() {
    each(|process| {
        let out = process.guest.space(24);
        process.call().fd_fdstat_get(3, out).unwrap();
        let (base, inheriting) = (process.guest.u64(out + 8), process.guest.u64(out + 16));
        process.call().fd_fdstat_set_rights(3, base & !(1 << 19), inheriting).unwrap();
        assert_eq!(process.open_as(3, "f", false, oflags::TRUNC, WRITE, 0), Err(Errno::NotCapable));
        assert_eq!(process.stat("f", false).unwrap(), (4, 4));
    });
}

#[test]
fn directories_come_and_go() {
    each(|process| {
        process.mkdir("new").unwrap();
        process.mkdir("new/inner/").unwrap();
        assert_eq!(process.mkdir("new"), Err(Errno::Exist));
        assert_eq!(process.mkdir("."), Err(Errno::Exist));
        assert_eq!(process.mkdir("missing/new"), Err(Errno::NoEnt));
        assert_eq!(process.mkdir("../new"), Err(Errno::Perm));
        assert_eq!(process.rmdir("new"), Err(Errno::NotEmpty));
        process.rmdir("new/inner").unwrap();
        process.rmdir("new/").unwrap();
        assert_eq!(process.rmdir("f"), Err(Errno::NotDir));
        assert_eq!(process.rmdir("f/"), Err(Errno::NotDir));
        assert_eq!(process.rmdir("l/"), Err(Errno::NotDir));
        assert_eq!(process.rmdir(".."), Err(Errno::Perm));
    });
}

#[test]
fn unlinking() {
    each(|process| {
        assert_eq!(process.unlink("d"), Err(Errno::IsDir));
        assert_eq!(process.unlink("d/"), Err(Errno::IsDir));
        assert_eq!(process.unlink("f/"), Err(Errno::NotDir));
        assert_eq!(process.unlink("l/"), Err(Errno::NotDir));
        assert_eq!(process.unlink("missing"), Err(Errno::NoEnt));
        assert_eq!(process.unlink("missing/"), Err(Errno::NoEnt));
        assert_eq!(process.unlink("../secret"), Err(Errno::Perm));
        process.unlink("l").unwrap();
        assert_eq!(process.stat("f", false).unwrap().0, 4, "the link went, not its target");
        process.unlink("f").unwrap();
        assert_eq!(process.stat("f", false), Err(Errno::NoEnt));
    });
}

#[test]
fn renaming() {
    each(|process| {
        process.rename("f", "g").unwrap();
        assert_eq!(process.stat("f", false), Err(Errno::NoEnt));
        process.rename("d/", "e/").unwrap();
        process.rename("e", "d/").unwrap();
        assert_eq!(process.rename("g", "d"), Err(Errno::IsDir));
        assert_eq!(process.rename("d", "g"), Err(Errno::NotDir));
        assert_eq!(process.rename("g/", "h"), Err(Errno::NotDir));
        assert_eq!(process.rename("g", "h/"), Err(Errno::NotDir));
        assert_eq!(process.rename("g", "../h"), Err(Errno::Perm));
        assert_eq!(process.rename("../secret", "h"), Err(Errno::Perm));
        process.rename("g", "d/g").unwrap();
        assert_eq!(process.stat("d/g", false).unwrap(), (4, 4));
    });
}

#[test]
fn symbolic_links() {
    each(|process| {
        process.symlink("d", "s").unwrap();
        assert_eq!(process.readlink("s", 9).unwrap(), b"d");
        process.symlink("somewhere/else", "t").unwrap();
        assert_eq!(process.readlink("t", 4).unwrap(), b"some");
        assert_eq!(process.readlink("f", 4), Err(Errno::Inval));
        assert_eq!(process.readlink("missing", 4), Err(Errno::NoEnt));
        assert_eq!(process.symlink("/etc", "u"), Err(Errno::Perm));
        assert_eq!(process.symlink("x", "../u"), Err(Errno::Perm));
        assert_eq!(process.symlink("x", "f"), Err(Errno::Exist));
        assert_eq!(process.symlink("x", "f/"), Err(Errno::Exist));
        assert_eq!(process.symlink("x", "u/"), Err(Errno::NoEnt));
        assert_eq!(process.symlink("", "u"), Err(Errno::NoEnt));
        process.symlink("../../..", "climb").unwrap();
        assert_eq!(process.open("climb"), Err(Errno::Perm), "a link may say so, but is not followed");
    });
}

#[test]
fn a_link_with_an_absolute_target_is_not_told() {
    for resolver in RESOLVERS {
        let (_outer, process) =
            in_directory(true, resolver, |path| std::os::unix::fs::symlink("/etc/hostname", path.join("l")).unwrap());
        assert_eq!(process.readlink("l", 64), Err(Errno::Perm));
    }
}

#[test]
fn hard_links() {
    each(|process| {
        process.link("f", "g", false).unwrap();
        process.link("l", "m", false).unwrap();
        assert_eq!(process.stat("m", false).unwrap().0, 7, "the link itself");
        process.link("l", "n", true).unwrap();
        assert_eq!(process.stat("n", false).unwrap(), (4, 4), "what it leads to");
        assert_eq!(process.link("f", "g", false), Err(Errno::Exist));
        assert_eq!(process.link("f", "d", false), Err(Errno::Exist));
        assert_eq!(process.link("f", "h/", false), Err(Errno::NoEnt));
        assert_eq!(process.link("f/", "h", false), Err(Errno::NotDir));
        assert_eq!(process.link("d", "h", false), Err(Errno::Perm));
        assert_eq!(process.link("../secret", "h", false), Err(Errno::Perm));
    });
}

#[test]
fn times_of_a_link_or_of_its_target() {
    each(|process| {
        let modified = |path: &str| {
            let (at, length) = process.path(path);
            let out = process.guest.space(64);
            process.call().path_filestat_get(3, 0, at, length, out).unwrap();
            process.guest.u64(out + 48)
        };
        process.set_times("l", false, 1_000_000_001).unwrap();
        assert_eq!(modified("l"), 1_000_000_001);
        assert!(modified("f") > 1_000_000_001);
        process.set_times("l", true, 2_000_000_002).unwrap();
        assert_eq!((modified("l"), modified("f")), (1_000_000_001, 2_000_000_002));
        assert_eq!(process.set_times("f/", true, 1), Err(Errno::NotDir));
        assert_eq!(process.set_times("missing", true, 1), Err(Errno::NoEnt));
    });
}
