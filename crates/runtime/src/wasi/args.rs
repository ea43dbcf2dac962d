//! `args_*` and `environ_*`: two lists of NUL-terminated strings, copied into buffers whose sizes the guest asks first.

use super::context::Call;
use super::errno::Result;
use super::guest::offset;

impl Call<'_> {
    /// `args_sizes_get`
    pub(super) fn args_sizes_get(&self, count: u64, bytes: u64) -> Result<()> {
        self.sizes(&self.wasi.args, count, bytes)
    }

    /// `args_get`
    pub(super) fn args_get(&self, pointers: u64, bytes: u64) -> Result<()> {
        self.strings(&self.wasi.args, pointers, bytes)
    }

    /// `environ_sizes_get`
    pub(super) fn environ_sizes_get(&self, count: u64, bytes: u64) -> Result<()> {
        self.sizes(&self.wasi.environ, count, bytes)
    }

    /// `environ_get`
    pub(super) fn environ_get(&self, pointers: u64, bytes: u64) -> Result<()> {
        self.strings(&self.wasi.environ, pointers, bytes)
    }

    /// Stores how many strings there are and how many bytes they take with their NULs.
    fn sizes(&self, list: &[Vec<u8>], count: u64, bytes: u64) -> Result<()> {
        let total = list.iter().map(|text| text.len() + 1).sum::<usize>();
        self.store_size(count, list.len() as u64)?;
        self.store_size(bytes, total as u64)
    }

    /// Stores the strings one behind the other, and the address of each.
    fn strings(&self, list: &[Vec<u8>], pointers: u64, bytes: u64) -> Result<()> {
        let mut at = bytes;
        for (index, text) in (0u64..).zip(list) {
            let length = text.len() as u64;
            self.store_size(offset(pointers, index * self.word())?, at)?;
            self.guest.write(at, text)?;
            self.guest.write(offset(at, length)?, &[0])?;
            at = offset(at, length + 1)?;
        }
        Ok(())
    }
}
