//! `path_*`: files by name, from a directory that the guest has open. See [`super::resolve`] for what a path may reach.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, statat};
use rustix::io::Errno as Host;

use super::abi::{Rights, SYMLINK_FOLLOW, fdflags, oflags};
use super::context::Call;
use super::descriptor::{Descriptor, Origin};
use super::errno::{Errno, Result};
use super::guest::GuestMemoryExt;
use super::resolve::{Place, relative};
use super::status::{filestat, timestamps};
use crate::number::to_usize;

/// Bytes of a path, as on Linux.
const PATH_MAX: u64 = 4096;

impl Call<'_> {
    /// `path_open`
    ///
    /// The rights asked for decide whether the file is opened for reading, writing or both; the new descriptor holds
    /// all that this allows.
    #[expect(clippy::too_many_arguments, reason = "preview 1 has nine")]
    pub(super) fn path_open(
        &self,
        fd: u32,
        lookup: u32,
        path: u64,
        length: u64,
        open: u32,
        base: u64,
        _inheriting: u64,
        flags: u32,
        opened: u64,
    ) -> Result<()> {
        let open = u16::try_from(open).ok().filter(|open| open & !oflags::ALL == 0).ok_or(Errno::Inval)?;
        let flags = u16::try_from(flags).ok().filter(|flags| flags & !fdflags::ALL == 0).ok_or(Errno::Inval)?;
        let directory = self.descriptor(fd)?;
        directory.directory(Rights::PATH_OPEN)?;
        self.guest.check(opened, 4)?;
        let path = self.path(path, length)?;
        let request = Request { open, flags, base: Rights(base), follow: lookup & SYMLINK_FOLLOW != 0 };
        let file = if directory.read_only {
            self.open_unchanged(&directory, &path, &request)?
        } else {
            self.open(&directory, &path, &request)?
        };
        self.guest.store_u32(opened, self.wasi.table.insert(file)?)
    }

    /// Opens through a directory that may be changed.
    fn open(&self, directory: &Descriptor, path: &[u8], request: &Request) -> Result<Descriptor> {
        let has = |flag| request.open & flag != 0;
        if has(oflags::CREAT) && has(oflags::DIRECTORY) {
            return Err(Errno::Inval);
        }
        if has(oflags::CREAT) {
            directory.require(Rights::PATH_CREATE_FILE)?;
        }
        if has(oflags::TRUNC) {
            directory.require(Rights::PATH_FILESTAT_SET_SIZE)?;
        }
        let mut flags = match (request.reads(), request.writes()) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            (_, false) => OFlags::RDONLY,
        };
        flags.set(OFlags::CREATE, has(oflags::CREAT));
        flags.set(OFlags::EXCL, has(oflags::EXCL));
        flags.set(OFlags::TRUNC, has(oflags::TRUNC));
        flags.set(OFlags::DIRECTORY, has(oflags::DIRECTORY));
        flags.set(OFlags::APPEND, request.flags & fdflags::APPEND != 0);
        flags.set(OFlags::DSYNC, request.flags & fdflags::DSYNC != 0);
        if request.flags & (fdflags::SYNC | fdflags::RSYNC) != 0 {
            flags |= OFlags::SYNC;
        }
        self.open_as(directory, path, request, flags)
    }

    /// Opens through a read-only directory: what exists and is only to be read.
    fn open_unchanged(&self, directory: &Descriptor, path: &[u8], request: &Request) -> Result<Descriptor> {
        let has = |flag| request.open & flag != 0;
        let mut flags = OFlags::RDONLY;
        flags.set(OFlags::DIRECTORY, has(oflags::DIRECTORY));
        match self.open_as(directory, path, request, flags) {
            Err(Errno::NoEnt) if has(oflags::CREAT) => Err(Errno::RoFs),
            Ok(_) if has(oflags::CREAT) && has(oflags::EXCL) => Err(Errno::Exist),
            Ok(file) if request.writes() || has(oflags::TRUNC) => {
                Err(if file.directory(Rights::NONE).is_ok() { Errno::IsDir } else { Errno::RoFs })
            }
            result => result,
        }
    }

    fn open_as(&self, directory: &Descriptor, path: &[u8], request: &Request, flags: OFlags) -> Result<Descriptor> {
        let root = directory.directory(Rights::PATH_OPEN)?;
        let mode = Mode::from_raw_mode(0o666);
        let file = self.wasi.resolver.open(root, path, request.follow, flags, mode)?;
        let inheriting = directory.held().inheriting;
        Descriptor::host(file, Origin::Opened { inheriting, flags: request.flags, read_only: directory.read_only })
    }

    /// `path_filestat_get`
    pub(super) fn path_filestat_get(&self, fd: u32, lookup: u32, path: u64, length: u64, out: u64) -> Result<()> {
        let place = self.place(fd, Rights::PATH_FILESTAT_GET, path, length, lookup & SYMLINK_FOLLOW != 0)?;
        let stat = status(&place)?;
        self.guest.write(out, &filestat(&stat).to_bytes())
    }

    /// `path_filestat_set_times`
    #[expect(clippy::too_many_arguments, reason = "preview 1 has seven")]
    pub(super) fn path_filestat_set_times(
        &self,
        fd: u32,
        lookup: u32,
        path: u64,
        length: u64,
        accessed: u64,
        modified: u64,
        flags: u32,
    ) -> Result<()> {
        let times = timestamps(accessed, modified, flags)?;
        let place = self.place(fd, Rights::PATH_FILESTAT_SET_TIMES, path, length, lookup & SYMLINK_FOLLOW != 0)?;
        status(&place)?;
        Ok(rustix::fs::utimensat(&place.directory, &place.name[..], &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// `path_readlink`: as much of the target as fits. An absolute target is a matter of the host's and not told.
    pub(super) fn path_readlink(
        &self,
        fd: u32,
        path: u64,
        length: u64,
        buffer: u64,
        room: u64,
        used: u64,
    ) -> Result<()> {
        let place = self.place(fd, Rights::PATH_READLINK, path, length, false)?;
        self.guest.check(buffer, room)?;
        self.guest.check(used, self.word())?;
        let target = rustix::fs::readlinkat(&place.directory, &place.name[..], Vec::new())?;
        let target = relative(target.to_bytes())?;
        let target = &target[..target.len().min(to_usize(room))];
        self.guest.write(buffer, target)?;
        self.store_size(used, target.len() as u64)
    }

    /// `path_create_directory`
    pub(super) fn path_create_directory(&self, fd: u32, path: u64, length: u64) -> Result<()> {
        let place = self.entry(fd, Rights::PATH_CREATE_DIRECTORY, path, length)?;
        Ok(rustix::fs::mkdirat(&place.directory, &place.name[..], Mode::from_raw_mode(0o777))?)
    }

    /// `path_remove_directory`
    pub(super) fn path_remove_directory(&self, fd: u32, path: u64, length: u64) -> Result<()> {
        let place = self.entry(fd, Rights::PATH_REMOVE_DIRECTORY, path, length)?;
        Ok(rustix::fs::unlinkat(&place.directory, &place.name[..], AtFlags::REMOVEDIR)?)
    }

    /// `path_unlink_file`
    pub(super) fn path_unlink_file(&self, fd: u32, path: u64, length: u64) -> Result<()> {
        let place = self.entry(fd, Rights::PATH_UNLINK_FILE, path, length)?;
        if place.as_directory {
            status(&place)?;
            return Err(Errno::IsDir);
        }
        Ok(rustix::fs::unlinkat(&place.directory, &place.name[..], AtFlags::empty())?)
    }

    /// `path_rename`
    pub(super) fn path_rename(
        &self,
        fd: u32,
        path: u64,
        length: u64,
        new_fd: u32,
        new_path: u64,
        new_length: u64,
    ) -> Result<()> {
        let from = self.entry(fd, Rights::PATH_RENAME_SOURCE, path, length)?;
        let to = self.entry(new_fd, Rights::PATH_RENAME_TARGET, new_path, new_length)?;
        if from.as_directory || to.as_directory {
            // Only a directory can be, or become, what is written as one.
            must_be_directory(&stat(&from)?)?;
        }
        Ok(rustix::fs::renameat(&from.directory, &from.name[..], &to.directory, &to.name[..])?)
    }

    /// `path_symlink`. A link with an absolute target could never be followed, and is refused.
    pub(super) fn path_symlink(&self, target: u64, target_length: u64, fd: u32, path: u64, length: u64) -> Result<()> {
        let target = self.path(target, target_length)?;
        let place = self.entry(fd, Rights::PATH_SYMLINK, path, length)?;
        free_name(&place)?;
        Ok(rustix::fs::symlinkat(relative(&target)?, &place.directory, &place.name[..])?)
    }

    /// `path_link`
    #[expect(clippy::too_many_arguments, reason = "preview 1 has seven")]
    pub(super) fn path_link(
        &self,
        fd: u32,
        lookup: u32,
        path: u64,
        length: u64,
        new_fd: u32,
        new_path: u64,
        new_length: u64,
    ) -> Result<()> {
        let from = self.place(fd, Rights::PATH_LINK_SOURCE, path, length, lookup & SYMLINK_FOLLOW != 0)?;
        let to = self.entry(new_fd, Rights::PATH_LINK_TARGET, new_path, new_length)?;
        status(&from)?;
        free_name(&to)?;
        Ok(rustix::fs::linkat(&from.directory, &from.name[..], &to.directory, &to.name[..], AtFlags::empty())?)
    }

    /// A path in guest memory. It is UTF-8 without NUL.
    fn path(&self, at: u64, length: u64) -> Result<Vec<u8>> {
        self.guest.check(at, length)?;
        if length > PATH_MAX {
            return Err(Errno::NameTooLong);
        }
        let mut path = vec![0; to_usize(length)];
        self.guest.read(at, &mut path)?;
        if std::str::from_utf8(&path).is_err() {
            return Err(Errno::IlSeq);
        }
        if path.contains(&0) {
            return Err(Errno::Inval);
        }
        Ok(path)
    }

    /// Where a path leads, from a directory with that right.
    fn place(&self, fd: u32, right: Rights, path: u64, length: u64, follow: bool) -> Result<Place> {
        let descriptor = self.descriptor(fd)?;
        let directory = descriptor.directory(right)?;
        self.wasi.resolver.locate(directory, &self.path(path, length)?, follow)
    }

    /// The directory entry that a path names, even with slashes behind it.
    fn entry(&self, fd: u32, right: Rights, path: u64, length: u64) -> Result<Place> {
        let descriptor = self.descriptor(fd)?;
        let directory = descriptor.directory(right)?;
        let path = self.path(path, length)?;
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(path.len(), |last| last + 1);
        let mut place = self.wasi.resolver.locate(directory, &path[..end], false)?;
        place.as_directory |= end < path.len();
        Ok(place)
    }
}

/// What `path_open` asks for.
struct Request {
    open: u16,
    flags: u16,
    base: Rights,
    follow: bool,
}

impl Request {
    fn reads(&self) -> bool {
        !(self.base & (Rights::FD_READ | Rights::FD_READDIR) == Rights::NONE)
    }

    fn writes(&self) -> bool {
        self.base.contains(Rights::FD_WRITE)
    }
}

/// What is at a place. Fails if it is no directory but written as one.
fn status(place: &Place) -> Result<Stat> {
    let stat = stat(place)?;
    if place.as_directory {
        must_be_directory(&stat)?;
    }
    Ok(stat)
}

fn stat(place: &Place) -> rustix::io::Result<Stat> {
    statat(&place.directory, &place.name[..], AtFlags::SYMLINK_NOFOLLOW)
}

fn must_be_directory(stat: &Stat) -> Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(()),
        _ => Err(Errno::NotDir),
    }
}

/// For a name that is to become something other than a directory: it must not be written as one.
fn free_name(place: &Place) -> Result<()> {
    if !place.as_directory {
        return Ok(());
    }
    match stat(place) {
        Ok(_) => Err(Errno::Exist),
        Err(Host::NOENT) => Err(Errno::NoEnt),
        Err(error) => Err(error.into()),
    }
}
