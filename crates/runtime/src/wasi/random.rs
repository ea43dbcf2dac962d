//! `random_get`: bytes from the host's generator.

use rustix::rand::{GetRandomFlags, getrandom};

use super::context::Call;
use super::errno::Result;
use super::guest::{GuestMemoryExt, offset};
use crate::number::to_usize;

/// Bytes fetched at a time.
const CHUNK: usize = 4096;

impl Call<'_> {
    /// `random_get`
    pub(super) fn random_get(&self, at: u64, length: u64) -> Result<()> {
        self.guest.check(at, length)?;
        let mut bounce = [0; CHUNK];
        let mut done = 0;
        while done < length {
            let chunk = bounce.len().min(to_usize(length - done));
            let count = match getrandom(&mut bounce[..chunk], GetRandomFlags::empty()) {
                Ok(count) => count,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            self.guest.write(offset(at, done)?, &bounce[..count])?;
            done += count as u64;
        }
        Ok(())
    }
}
