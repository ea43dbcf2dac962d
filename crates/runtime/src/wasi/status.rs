//! What is known about a descriptor and its file, and changing it: `fd_fdstat_*`, `fd_filestat_*`, `fd_sync`,
//! `fd_datasync`, `fd_advise`, `fd_allocate`, `fd_close`, `fd_renumber`.

use std::num::NonZeroU64;
use std::os::fd::OwnedFd;

use rustix::fs::{Advice, FallocateFlags, FileType, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use super::abi::{self, Filestat, Filetype, Rights, fdflags, fstflags};
use super::clocks::nanoseconds;
use super::context::Call;
use super::descriptor::{Descriptor, Held, Object};
use super::errno::{Errno, Result};

impl Call<'_> {
    /// `fd_close`
    pub(super) fn fd_close(&self, fd: u32) -> Result<()> {
        self.wasi.table.remove(fd)
    }

    /// `fd_renumber`
    pub(super) fn fd_renumber(&self, from: u32, to: u32) -> Result<()> {
        self.wasi.table.renumber(from, to)
    }

    /// `fd_fdstat_get`
    pub(super) fn fd_fdstat_get(&self, fd: u32, out: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        let held = descriptor.held();
        self.guest.write(out, &abi::fdstat(descriptor.kind, descriptor.flags(), held.base, held.inheriting))
    }

    /// `fd_fdstat_set_flags`
    pub(super) fn fd_fdstat_set_flags(&self, fd: u32, flags: u32) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        descriptor.require(Rights::FD_FDSTAT_SET_FLAGS)?;
        let flags = u16::try_from(flags).ok().filter(|flags| flags & !fdflags::ALL == 0).ok_or(Errno::Inval)?;
        let change = flags ^ descriptor.flags();
        if change & (fdflags::DSYNC | fdflags::RSYNC | fdflags::SYNC) != 0 {
            return Err(Errno::Inval);
        }
        if change & fdflags::APPEND != 0 {
            let Object::Host(file) = &descriptor.object else { return Err(Errno::NotSup) };
            if !descriptor.ours {
                return Err(Errno::NotSup);
            }
            let mut status = rustix::fs::fcntl_getfl(file)?;
            status.set(OFlags::APPEND, flags & fdflags::APPEND != 0);
            rustix::fs::fcntl_setfl(file, status)?;
        }
        descriptor.set_flags(flags);
        Ok(())
    }

    /// `fd_fdstat_set_rights`
    pub(super) fn fd_fdstat_set_rights(&self, fd: u32, base: u64, inheriting: u64) -> Result<()> {
        self.descriptor(fd)?.keep(Held { base: Rights(base), inheriting: Rights(inheriting) })
    }

    /// `fd_filestat_get`
    pub(super) fn fd_filestat_get(&self, fd: u32, out: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        descriptor.require(Rights::FD_FILESTAT_GET)?;
        let stat = match &descriptor.object {
            Object::Host(file) => filestat(&rustix::fs::fstat(file)?),
            _ => Filestat {
                device: 0,
                inode: 0,
                kind: descriptor.kind,
                links: 1,
                size: 0,
                accessed: 0,
                modified: 0,
                changed: 0,
            },
        };
        self.guest.write(out, &stat.to_bytes())
    }

    /// `fd_filestat_set_size`
    pub(super) fn fd_filestat_set_size(&self, fd: u32, size: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        let file = host(&descriptor, Rights::FD_FILESTAT_SET_SIZE)?;
        if i64::try_from(size).is_err() {
            return Err(Errno::Inval);
        }
        Ok(rustix::fs::ftruncate(file, size)?)
    }

    /// `fd_filestat_set_times`
    pub(super) fn fd_filestat_set_times(&self, fd: u32, accessed: u64, modified: u64, flags: u32) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        let file = host(&descriptor, Rights::FD_FILESTAT_SET_TIMES)?;
        Ok(rustix::fs::futimens(file, &timestamps(accessed, modified, flags)?)?)
    }

    /// `fd_sync`
    pub(super) fn fd_sync(&self, fd: u32) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        descriptor.require(Rights::FD_SYNC)?;
        match &descriptor.object {
            Object::Host(file) => Ok(rustix::fs::fsync(file)?),
            _ => Ok(()),
        }
    }

    /// `fd_datasync`
    pub(super) fn fd_datasync(&self, fd: u32) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        descriptor.require(Rights::FD_DATASYNC)?;
        match &descriptor.object {
            Object::Host(file) => Ok(rustix::fs::fdatasync(file)?),
            _ => Ok(()),
        }
    }

    /// `fd_advise`
    pub(super) fn fd_advise(&self, fd: u32, at: u64, length: u64, advice: u32) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        let file = host(&descriptor, Rights::FD_ADVISE)?;
        let advice = match advice {
            0 => Advice::Normal,
            1 => Advice::Sequential,
            2 => Advice::Random,
            3 => Advice::WillNeed,
            4 => Advice::DontNeed,
            5 => Advice::NoReuse,
            _ => return Err(Errno::Inval),
        };
        if i64::try_from(at).is_err() || i64::try_from(length).is_err() {
            return Err(Errno::Inval);
        }
        Ok(rustix::fs::fadvise(file, at, NonZeroU64::new(length), advice)?)
    }

    /// `fd_allocate`
    pub(super) fn fd_allocate(&self, fd: u32, at: u64, length: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        let file = host(&descriptor, Rights::FD_ALLOCATE)?;
        if length == 0 {
            return Err(Errno::Inval);
        }
        if at.checked_add(length).is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(Errno::FBig);
        }
        Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), at, length)?)
    }
}

/// The host's descriptor, for an operation that only such a one can support.
fn host(descriptor: &Descriptor, right: Rights) -> Result<&OwnedFd> {
    descriptor.require(right)?;
    match &descriptor.object {
        Object::Host(file) => Ok(file),
        _ => Err(Errno::BadF),
    }
}

/// What the host says about a file. A time that preview 1 cannot express is 0.
pub(super) fn filestat(stat: &Stat) -> Filestat {
    let time = |seconds, rest| nanoseconds(Timespec { tv_sec: seconds, tv_nsec: rest }).unwrap_or(0);
    Filestat {
        device: natural(stat.st_dev),
        inode: natural(stat.st_ino),
        kind: Filetype::from(FileType::from_raw_mode(stat.st_mode)),
        links: natural(stat.st_nlink),
        size: natural(stat.st_size),
        accessed: time(whole(stat.st_atime), whole(stat.st_atime_nsec)),
        modified: time(whole(stat.st_mtime), whole(stat.st_mtime_nsec)),
        changed: time(whole(stat.st_ctime), whole(stat.st_ctime_nsec)),
    }
}

/// A field of `stat`, whose type differs between hosts.
fn natural<T>(value: T) -> u64
where
    u64: TryFrom<T>,
{
    u64::try_from(value).unwrap_or(0)
}

/// A part of a time in `stat`, whose type differs between hosts.
fn whole<T>(value: T) -> i64
where
    i64: TryFrom<T>,
{
    i64::try_from(value).unwrap_or(0)
}

/// The times to set, by `fstflags`.
pub(super) fn timestamps(accessed: u64, modified: u64, flags: u32) -> Result<Timestamps> {
    let flags = u16::try_from(flags).ok().filter(|flags| flags & !fstflags::ALL == 0).ok_or(Errno::Inval)?;
    let pick = |time: u64, given: u16, now: u16| match (flags & given != 0, flags & now != 0) {
        (true, true) => Err(Errno::Inval),
        (true, false) => {
            let seconds = i64::try_from(time / 1_000_000_000).map_err(|_| Errno::Inval)?;
            let rest = i64::try_from(time % 1_000_000_000).map_err(|_| Errno::Inval)?;
            Ok(Timespec { tv_sec: seconds, tv_nsec: rest })
        }
        (false, true) => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }),
        (false, false) => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
    };
    Ok(Timestamps {
        last_access: pick(accessed, fstflags::ATIM, fstflags::ATIM_NOW)?,
        last_modification: pick(modified, fstflags::MTIM, fstflags::MTIM_NOW)?,
    })
}
