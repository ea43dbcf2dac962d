//! Numbers and memory layouts of WASI preview 1, as its witx gives them. All little-endian, offsets in bytes.
//!
//! | structure | bytes | fields |
//! |---|---|---|
//! | iovec | 8 | address 0, length 4 |
//! | prestat | 8 | tag (u8) 0, name length 4 |
//! | fdstat | 24 | type (u8) 0, flags (u16) 2, rights 8, inheriting 16 |
//! | dirent | 24 | next cookie 0, inode 8, name length (u32) 16, type (u8) 20 |
//! | filestat | 64 | device 0, inode 8, type (u8) 16, links 24, size 32, atim 40, mtim 48, ctim 56 |
//! | subscription | 48 | user data 0, tag (u8) 8, clock: id 16, timeout 24, precision 32, flags (u16) 40; descriptor: number 16 |
//! | event | 32 | user data 0, errno (u16) 8, type (u8) 10, bytes 16, flags (u16) 24 |

use std::ops::{BitAnd, BitOr, Not};

use rustix::fs::FileType;

/// Kinds of file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Filetype {
    /// None of the others: a pipe, for one.
    Unknown = 0,
    /// Block device.
    BlockDevice = 1,
    /// Character device.
    CharacterDevice = 2,
    /// Directory.
    Directory = 3,
    /// Regular file.
    RegularFile = 4,
    /// Datagram socket: each message is sent and received whole.
    SocketDgram = 5,
    /// Stream socket.
    SocketStream = 6,
    /// Symbolic link.
    SymbolicLink = 7,
}

impl From<FileType> for Filetype {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::RegularFile,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::SymbolicLink,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Socket => Self::SocketStream,
            _ => Self::Unknown,
        }
    }
}

/// A set of rights: bit n is the n-th of the witx `rights` flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rights(pub(super) u64);

impl Rights {
    pub(super) const NONE: Self = Self(0);
    pub(super) const FD_DATASYNC: Self = Self(1 << 0);
    pub(super) const FD_READ: Self = Self(1 << 1);
    pub(super) const FD_SEEK: Self = Self(1 << 2);
    pub(super) const FD_FDSTAT_SET_FLAGS: Self = Self(1 << 3);
    pub(super) const FD_SYNC: Self = Self(1 << 4);
    pub(super) const FD_TELL: Self = Self(1 << 5);
    pub(super) const FD_WRITE: Self = Self(1 << 6);
    pub(super) const FD_ADVISE: Self = Self(1 << 7);
    pub(super) const FD_ALLOCATE: Self = Self(1 << 8);
    pub(super) const PATH_CREATE_DIRECTORY: Self = Self(1 << 9);
    pub(super) const PATH_CREATE_FILE: Self = Self(1 << 10);
    pub(super) const PATH_LINK_SOURCE: Self = Self(1 << 11);
    pub(super) const PATH_LINK_TARGET: Self = Self(1 << 12);
    pub(super) const PATH_OPEN: Self = Self(1 << 13);
    pub(super) const FD_READDIR: Self = Self(1 << 14);
    pub(super) const PATH_READLINK: Self = Self(1 << 15);
    pub(super) const PATH_RENAME_SOURCE: Self = Self(1 << 16);
    pub(super) const PATH_RENAME_TARGET: Self = Self(1 << 17);
    pub(super) const PATH_FILESTAT_GET: Self = Self(1 << 18);
    pub(super) const PATH_FILESTAT_SET_SIZE: Self = Self(1 << 19);
    pub(super) const PATH_FILESTAT_SET_TIMES: Self = Self(1 << 20);
    pub(super) const FD_FILESTAT_GET: Self = Self(1 << 21);
    pub(super) const FD_FILESTAT_SET_SIZE: Self = Self(1 << 22);
    pub(super) const FD_FILESTAT_SET_TIMES: Self = Self(1 << 23);
    pub(super) const PATH_SYMLINK: Self = Self(1 << 24);
    pub(super) const PATH_REMOVE_DIRECTORY: Self = Self(1 << 25);
    pub(super) const PATH_UNLINK_FILE: Self = Self(1 << 26);
    pub(super) const POLL_FD_READWRITE: Self = Self(1 << 27);
    pub(super) const SOCK_SHUTDOWN: Self = Self(1 << 28);
    pub(super) const SOCK_ACCEPT: Self = Self(1 << 29);
    /// Every right there is.
    pub(super) const ALL: Self = Self((1 << 30) - 1);

    pub(super) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union, for constants.
    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Rights {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Rights {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Not for Rights {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}

/// `fdflags`.
pub(super) mod fdflags {
    pub(crate) const APPEND: u16 = 1;
    pub(crate) const DSYNC: u16 = 2;
    pub(crate) const NONBLOCK: u16 = 4;
    pub(crate) const RSYNC: u16 = 8;
    pub(crate) const SYNC: u16 = 16;
    pub(crate) const ALL: u16 = 31;
}

/// `oflags`.
pub(super) mod oflags {
    pub(crate) const CREAT: u16 = 1;
    pub(crate) const DIRECTORY: u16 = 2;
    pub(crate) const EXCL: u16 = 4;
    pub(crate) const TRUNC: u16 = 8;
    pub(crate) const ALL: u16 = 15;
}

/// `fstflags`.
pub(super) mod fstflags {
    pub(crate) const ATIM: u16 = 1;
    pub(crate) const ATIM_NOW: u16 = 2;
    pub(crate) const MTIM: u16 = 4;
    pub(crate) const MTIM_NOW: u16 = 8;
    pub(crate) const ALL: u16 = 15;
}

/// `riflags`: of `sock_recv`.
pub(super) mod riflags {
    pub(crate) const PEEK: u32 = 1;
    pub(crate) const WAITALL: u32 = 2;
    pub(crate) const ALL: u32 = 3;
}

/// `roflags`: a datagram was longer than the buffers.
pub(super) const DATA_TRUNCATED: u16 = 1;

/// `lookupflags`: follow a symbolic link in the last component.
pub(super) const SYMLINK_FOLLOW: u32 = 1;

/// Bytes of a `subscription`.
pub(super) const SUBSCRIPTION_SIZE: u32 = 48;
/// Bytes of an `event`.
pub(super) const EVENT_SIZE: u32 = 32;

/// A structure being filled, zero where nothing is put.
struct Layout<const N: usize>([u8; N]);

impl<const N: usize> Layout<N> {
    const fn new() -> Self {
        Self([0; N])
    }

    fn put<const M: usize>(mut self, at: usize, bytes: [u8; M]) -> Self {
        self.0[at..at + M].copy_from_slice(&bytes);
        self
    }
}

/// `fdstat`.
pub(super) fn fdstat(kind: Filetype, flags: u16, rights: Rights, inheriting: Rights) -> [u8; 24] {
    Layout::new()
        .put(0, [kind as u8])
        .put(2, flags.to_le_bytes())
        .put(8, rights.0.to_le_bytes())
        .put(16, inheriting.0.to_le_bytes())
        .0
}

/// `prestat` of a directory.
pub(super) fn prestat(name_length: u32) -> [u8; 8] {
    Layout::new().put(4, name_length.to_le_bytes()).0
}

/// `prestat` of a directory where sizes are 64 bits wide.
pub(super) fn prestat64(name_length: u64) -> [u8; 16] {
    Layout::new().put(8, name_length.to_le_bytes()).0
}

/// `dirent`.
pub(super) fn dirent(next: u64, inode: u64, name_length: u32, kind: Filetype) -> [u8; 24] {
    Layout::new()
        .put(0, next.to_le_bytes())
        .put(8, inode.to_le_bytes())
        .put(16, name_length.to_le_bytes())
        .put(20, [kind as u8])
        .0
}

/// `filestat`, before it is laid out. Times are ns since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Filestat {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) kind: Filetype,
    pub(super) links: u64,
    pub(super) size: u64,
    pub(super) accessed: u64,
    pub(super) modified: u64,
    pub(super) changed: u64,
}

impl Filestat {
    pub(super) fn to_bytes(self) -> [u8; 64] {
        Layout::new()
            .put(0, self.device.to_le_bytes())
            .put(8, self.inode.to_le_bytes())
            .put(16, [self.kind as u8])
            .put(24, self.links.to_le_bytes())
            .put(32, self.size.to_le_bytes())
            .put(40, self.accessed.to_le_bytes())
            .put(48, self.modified.to_le_bytes())
            .put(56, self.changed.to_le_bytes())
            .0
    }
}

/// What a `subscription` asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Interest {
    /// A clock: `timeout` in ns, from now or, if `absolute`, by that clock.
    Clock { id: u32, timeout: u64, absolute: bool },
    /// A descriptor with something to read.
    Read(u32),
    /// A descriptor with room to write.
    Write(u32),
    /// A tag that the witx does not know.
    Unknown,
}

/// `subscription`.
pub(super) fn subscription(bytes: &[u8; SUBSCRIPTION_SIZE as usize]) -> (u64, Interest) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let interest = match bytes[8] {
        0 => Interest::Clock { id: half(16), timeout: word(24), absolute: bytes[40] & 1 != 0 },
        1 => Interest::Read(half(16)),
        2 => Interest::Write(half(16)),
        _ => Interest::Unknown,
    };
    (word(0), interest)
}

/// `event`, before it is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Event {
    pub(super) user_data: u64,
    /// 0 or an error number.
    pub(super) errno: u16,
    /// The subscription's tag.
    pub(super) kind: u8,
    /// Bytes that can be read or written.
    pub(super) bytes: u64,
    /// Whether the other end is closed.
    pub(super) hangup: bool,
}

impl Event {
    pub(super) fn to_bytes(self) -> [u8; EVENT_SIZE as usize] {
        Layout::new()
            .put(0, self.user_data.to_le_bytes())
            .put(8, self.errno.to_le_bytes())
            .put(10, [self.kind])
            .put(16, self.bytes.to_le_bytes())
            .put(24, u16::from(self.hangup).to_le_bytes())
            .0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_witx_puts_them() {
        let fdstat = fdstat(Filetype::RegularFile, 0x1234, Rights(0x11), Rights(0x22));
        assert_eq!((fdstat[0], &fdstat[2..4], fdstat[8], fdstat[16]), (4, &[0x34, 0x12][..], 0x11, 0x22));
        assert_eq!(prestat(7), [0, 0, 0, 0, 7, 0, 0, 0]);
        let dirent = dirent(1, 2, 3, Filetype::Directory);
        assert_eq!((dirent[0], dirent[8], dirent[16], dirent[20]), (1, 2, 3, 3));
        let stat = Filestat {
            device: 1,
            inode: 2,
            kind: Filetype::SymbolicLink,
            links: 3,
            size: 4,
            accessed: 5,
            modified: 6,
            changed: 7,
        }
        .to_bytes();
        let seen = [0, 8, 16, 24, 32, 40, 48, 56].map(|at: usize| stat[at]);
        assert_eq!(seen, [1, 2, 7, 3, 4, 5, 6, 7]);
        let event = Event { user_data: 1, errno: 2, kind: 1, bytes: 3, hangup: true }.to_bytes();
        assert_eq!([0, 8, 10, 16, 24].map(|at: usize| event[at]), [1, 2, 1, 3, 1]);
    }

    #[test]
    fn subscriptions_are_read_by_tag() {
        let mut bytes = [0; 48];
        bytes[0] = 9;
        bytes[16] = 1;
        bytes[24] = 5;
        bytes[40] = 1;
        assert_eq!(subscription(&bytes), (9, Interest::Clock { id: 1, timeout: 5, absolute: true }));
        bytes[8] = 1;
        assert_eq!(subscription(&bytes).1, Interest::Read(1));
        bytes[8] = 2;
        assert_eq!(subscription(&bytes).1, Interest::Write(1));
        bytes[8] = 3;
        assert_eq!(subscription(&bytes).1, Interest::Unknown);
    }
}
