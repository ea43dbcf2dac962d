//! `fd_prestat_*` and `fd_readdir`.
//!
//! A cookie is the host file system's own position after an entry, so that reading goes on from any cookie, on any
//! thread, while entries come and go; 0 is the start.

use std::mem::MaybeUninit;

use rustix::fs::{AtFlags, FileType, RawDir, SeekFrom};

use super::abi::{self, Filetype, Rights};
use super::context::Call;
use super::errno::{Errno, Result};
use super::guest::{GuestMemoryExt, offset};
use crate::number::to_usize;

/// Bytes of entries fetched from the host at a time.
const CHUNK: usize = 16 << 10;

impl Call<'_> {
    /// `fd_prestat_get`
    pub(super) fn fd_prestat_get(&self, fd: u32, out: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        let name = descriptor.preopen.as_ref().ok_or(Errno::BadF)?;
        let length = name.len() as u64;
        match self.wide {
            true => self.guest.write(out, &abi::prestat64(length)),
            false => self.guest.write(out, &abi::prestat(u32::try_from(length).map_err(|_| Errno::Overflow)?)),
        }
    }

    /// `fd_prestat_dir_name`
    pub(super) fn fd_prestat_dir_name(&self, fd: u32, at: u64, length: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        let name = descriptor.preopen.as_ref().ok_or(Errno::BadF)?;
        if name.len() as u64 > length {
            return Err(Errno::NameTooLong);
        }
        self.guest.write(at, name.as_bytes())
    }

    /// `fd_readdir`: as many entries as fit, the last one cut off where the buffer ends.
    pub(super) fn fd_readdir(&self, fd: u32, at: u64, length: u64, cookie: u64, used: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        let directory = descriptor.directory(Rights::FD_READDIR)?;
        self.guest.check(at, length)?;
        self.guest.check(used, self.word())?;
        if i64::try_from(cookie).is_err() {
            return Err(Errno::Inval);
        }
        let mut done = 0;
        let position = descriptor.hold_position();
        rustix::fs::seek(directory, SeekFrom::Start(cookie))?;
        let mut buffer = vec![MaybeUninit::uninit(); CHUNK];
        let mut entries = RawDir::new(directory, &mut buffer);
        while done < length
            && let Some(entry) = entries.next()
        {
            let entry = entry?;
            let kind = match entry.file_type() {
                FileType::Unknown => rustix::fs::statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(Filetype::Unknown, |stat| FileType::from_raw_mode(stat.st_mode).into()),
                kind => kind.into(),
            };
            let name = entry.file_name().to_bytes();
            let name_length = u32::try_from(name.len()).map_err(|_| Errno::Overflow)?;
            let header = abi::dirent(entry.next_entry_cookie(), entry.ino(), name_length, kind);
            for part in [&header[..], name] {
                let part = &part[..part.len().min(to_usize(length - done))];
                self.guest.write(offset(at, done)?, part)?;
                done += part.len() as u64;
            }
        }
        drop(position);
        self.store_size(used, done)
    }
}
