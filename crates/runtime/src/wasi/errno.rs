//! The error numbers of WASI preview 1, and how the host's map to them.
//!
//! Numbers are the witx `errno` enumeration, 1 to 76; 0 (`success`) is `Ok`. A host error without a counterpart is
//! [`Errno::Io`].

use std::fmt;

use rustix::io::Errno as Host;

/// Defines [`Errno`] with its numbers, messages and host counterparts.
macro_rules! errnos {
    ($($name:ident = $code:literal, $host:ident, $message:literal;)* @guest $($only:ident = $only_code:literal, $only_message:literal;)*) => {
        /// What a WASI call answers when it fails: the witx enumeration without `success`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        pub enum Errno {
            $(#[doc = $message] $name = $code,)*
            $(#[doc = $only_message] $only = $only_code,)*
        }

        impl Errno {
            /// What it means, in a few words.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self {
                    $(Self::$name => $message,)*
                    $(Self::$only => $only_message,)*
                }
            }
        }

        impl From<Host> for Errno {
            fn from(error: Host) -> Self {
                match error {
                    $(Host::$host => Self::$name,)*
                    _ => Self::Io,
                }
            }
        }
    };
}

errnos! {
    TooBig = 1, TOOBIG, "argument list too long";
    Access = 2, ACCESS, "permission denied";
    AddrInUse = 3, ADDRINUSE, "address in use";
    AddrNotAvail = 4, ADDRNOTAVAIL, "address not available";
    AfNoSupport = 5, AFNOSUPPORT, "address family not supported";
    Again = 6, AGAIN, "resource unavailable, or the operation would block";
    Already = 7, ALREADY, "connection already in progress";
    BadF = 8, BADF, "bad file descriptor";
    BadMsg = 9, BADMSG, "bad message";
    Busy = 10, BUSY, "device or resource busy";
    Canceled = 11, CANCELED, "operation canceled";
    Child = 12, CHILD, "no child processes";
    ConnAborted = 13, CONNABORTED, "connection aborted";
    ConnRefused = 14, CONNREFUSED, "connection refused";
    ConnReset = 15, CONNRESET, "connection reset";
    Deadlk = 16, DEADLK, "resource deadlock would occur";
    DestAddrReq = 17, DESTADDRREQ, "destination address required";
    Dom = 18, DOM, "mathematics argument out of domain of function";
    DQuot = 19, DQUOT, "quota exceeded";
    Exist = 20, EXIST, "file exists";
    Fault = 21, FAULT, "bad address";
    FBig = 22, FBIG, "file too large";
    HostUnreach = 23, HOSTUNREACH, "host is unreachable";
    IdRm = 24, IDRM, "identifier removed";
    IlSeq = 25, ILSEQ, "illegal byte sequence";
    InProgress = 26, INPROGRESS, "operation in progress";
    Intr = 27, INTR, "interrupted";
    Inval = 28, INVAL, "invalid argument";
    Io = 29, IO, "input or output error";
    IsConn = 30, ISCONN, "socket is connected";
    IsDir = 31, ISDIR, "is a directory";
    Loop = 32, LOOP, "too many levels of symbolic links";
    MFile = 33, MFILE, "file descriptor value too large";
    MLink = 34, MLINK, "too many links";
    MsgSize = 35, MSGSIZE, "message too large";
    MultiHop = 36, MULTIHOP, "reserved";
    NameTooLong = 37, NAMETOOLONG, "filename too long";
    NetDown = 38, NETDOWN, "network is down";
    NetReset = 39, NETRESET, "connection aborted by network";
    NetUnreach = 40, NETUNREACH, "network unreachable";
    NFile = 41, NFILE, "too many files open in system";
    NoBufs = 42, NOBUFS, "no buffer space available";
    NoDev = 43, NODEV, "no such device";
    NoEnt = 44, NOENT, "no such file or directory";
    NoExec = 45, NOEXEC, "executable file format error";
    NoLck = 46, NOLCK, "no locks available";
    NoLink = 47, NOLINK, "reserved";
    NoMem = 48, NOMEM, "not enough space";
    NoMsg = 49, NOMSG, "no message of the desired type";
    NoProtoOpt = 50, NOPROTOOPT, "protocol not available";
    NoSpc = 51, NOSPC, "no space left on device";
    NoSys = 52, NOSYS, "function not supported";
    NotConn = 53, NOTCONN, "the socket is not connected";
    NotDir = 54, NOTDIR, "not a directory or a symbolic link to a directory";
    NotEmpty = 55, NOTEMPTY, "directory not empty";
    NotRecoverable = 56, NOTRECOVERABLE, "state not recoverable";
    NotSock = 57, NOTSOCK, "not a socket";
    NotSup = 58, NOTSUP, "not supported";
    NoTty = 59, NOTTY, "inappropriate I/O control operation";
    NxIo = 60, NXIO, "no such device or address";
    Overflow = 61, OVERFLOW, "value too large to be stored in data type";
    OwnerDead = 62, OWNERDEAD, "previous owner died";
    Perm = 63, PERM, "operation not permitted, or a path that leads out of its directory";
    Pipe = 64, PIPE, "broken pipe";
    Proto = 65, PROTO, "protocol error";
    ProtoNoSupport = 66, PROTONOSUPPORT, "protocol not supported";
    Prototype = 67, PROTOTYPE, "protocol wrong type for socket";
    Range = 68, RANGE, "result too large";
    RoFs = 69, ROFS, "read-only file system";
    SPipe = 70, SPIPE, "invalid seek";
    Srch = 71, SRCH, "no such process";
    Stale = 72, STALE, "reserved";
    TimedOut = 73, TIMEDOUT, "connection timed out";
    TxtBsy = 74, TXTBSY, "text file busy";
    XDev = 75, XDEV, "cross-device link";
    @guest
    NotCapable = 76, "the descriptor's rights do not allow it";
}

impl Errno {
    /// The number that the guest sees.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Host::from_io_error(&error).map_or(Self::Io, Self::from)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Errno {}

/// The result of a WASI call, or of a step of one.
pub(super) type Result<T, E = Errno> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_witx() {
        for (errno, code) in [
            (Errno::TooBig, 1),
            (Errno::Again, 6),
            (Errno::BadF, 8),
            (Errno::Exist, 20),
            (Errno::Fault, 21),
            (Errno::Inval, 28),
            (Errno::Loop, 32),
            (Errno::NoEnt, 44),
            (Errno::NoSys, 52),
            (Errno::NotDir, 54),
            (Errno::NotSup, 58),
            (Errno::Perm, 63),
            (Errno::RoFs, 69),
            (Errno::SPipe, 70),
            (Errno::NotCapable, 76),
        ] {
            assert_eq!(errno.code(), code);
        }
    }

    #[test]
    fn host_errors_keep_their_meaning() {
        assert_eq!(Errno::from(Host::NOENT), Errno::NoEnt);
        assert_eq!(Errno::from(Host::TOOBIG), Errno::TooBig);
        assert_eq!(Errno::from(Host::NOTUNIQ), Errno::Io);
        assert_eq!(Errno::from(std::io::Error::from_raw_os_error(Host::ROFS.raw_os_error())), Errno::RoFs);
    }
}
