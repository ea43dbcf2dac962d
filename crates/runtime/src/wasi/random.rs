//! `random_get`: bytes from the host's generator.

use rustix::rand::{GetRandomFlags, getrandom};

use super::context::Call;
use super::errno::Result;
use super::guest::{GuestMemoryExt, offset};

/// Bytes fetched at a time.
const CHUNK: usize = 4096;

impl Call<'_> {
    /// `random_get`
    pub(super) fn random_get(&self, at: u32, length: u32) -> Result<()> {
        self.guest.check(at, length.into())?;
        let mut bounce = [0; CHUNK];
        let mut done = 0;
        while done < length {
            let chunk = bounce.len().min((length - done) as usize);
            let count = match getrandom(&mut bounce[..chunk], GetRandomFlags::empty()) {
                Ok(count) => count,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            self.guest.write(offset(at, done.into())?, &bounce[..count])?;
            done += u32::try_from(count).expect("at most a chunk");
        }
        Ok(())
    }
}
