//! From a guest's path to a file, never out of the directory where the path starts.
//!
//! Two resolvers give the same answers. [`Resolver::Kernel`] lets `openat2` with `RESOLVE_BENEATH` walk the path, which
//! refuses every step that leads out, races included. [`Resolver::Walk`], for kernels and containers without it, opens
//! one component at a time without following links, keeps the directories it came through on a stack, reads links
//! itself, and answers `..` from the stack: no kernel `..` and no link is ever followed, so nobody can move a directory
//! under its feet and make it climb out.
//!
//! Most calls act on a [`Place`]: an open directory and a name in it that is taken literally (`NOFOLLOW`). When the last
//! component is to be followed its link is read here and the path that results is resolved from the start, so a link
//! that appears later is not followed but fails.
//!
//! `perm` is the answer to a path that leads out. Cost: 2 to 4 system calls a path with the kernel's help, else 1 a
//! component.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno as Host;

use super::errno::{Errno, Result};

/// Links that one path may lead through, as on Linux.
const MAX_LINKS: usize = 40;

/// How paths are resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Resolver {
    /// By `openat2`.
    Kernel,
    /// Component by component.
    Walk,
}

/// A file or a free name: nothing on the way to it is a link any more.
#[derive(Debug)]
pub(super) struct Place {
    /// The directory it is in.
    pub(super) directory: OwnedFd,
    /// Its name there: one component, or `.`.
    pub(super) name: Vec<u8>,
    /// Whether the path was written as one of a directory: with a slash at its end, or a dot.
    pub(super) as_directory: bool,
}

impl Resolver {
    /// The kernel's, if this kernel and its sandbox let us.
    pub(super) fn detect() -> Self {
        #[cfg(target_os = "linux")]
        if openat(rustix::fs::CWD, ".", DIRECTORY, Mode::empty())
            .is_ok_and(|here| beneath(here.as_fd(), b".", DIRECTORY, Mode::empty()).is_ok())
        {
            return Self::Kernel;
        }
        Self::Walk
    }

    /// Opens a file.
    pub(super) fn open(
        self,
        root: BorrowedFd<'_>,
        path: &[u8],
        follow: bool,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd> {
        // Without NONBLOCK, opening a pipe would wait for its other end.
        let mut flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        flags.set(OFlags::NOFOLLOW, !follow);
        #[cfg(target_os = "linux")]
        if self == Self::Kernel {
            match beneath(root, path, flags, mode) {
                Err(Host::AGAIN) => {}
                result => return result.map_err(refused),
            }
        }
        let place = self.locate(root, path, follow && !flags.contains(OFlags::EXCL))?;
        if place.as_directory {
            if flags.contains(OFlags::CREATE) {
                return Err(Errno::IsDir);
            }
            flags |= OFlags::DIRECTORY;
        }
        Ok(openat(&place.directory, &place.name[..], flags | OFlags::NOFOLLOW, mode)?)
    }

    /// Finds where a path leads. A link in its last component is followed if `follow` says so or a slash is behind it.
    pub(super) fn locate(self, root: BorrowedFd<'_>, path: &[u8], follow: bool) -> Result<Place> {
        let mut path = path.to_vec();
        for _ in 0..=MAX_LINKS {
            let Split { parent, name, slash } = split(&path)?;
            if name == b"." || name == b".." {
                let directory = self.directory(root, &path)?;
                return Ok(Place { directory, name: b".".to_vec(), as_directory: true });
            }
            let directory = self.directory(root, parent)?;
            if follow || slash {
                match readlinkat(&directory, name, Vec::new()) {
                    Ok(target) => {
                        path = behind_link(parent, target.to_bytes(), slash)?;
                        continue;
                    }
                    // Not a link, or nothing.
                    Err(Host::INVAL | Host::NOENT) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            return Ok(Place { directory, name: name.to_vec(), as_directory: slash });
        }
        Err(Errno::Loop)
    }

    /// Opens a directory as a place to start from; an empty path is `root` itself.
    fn directory(self, root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        #[cfg(target_os = "linux")]
        if self == Self::Kernel {
            match beneath(root, path, DIRECTORY, Mode::empty()) {
                Err(Host::AGAIN) => {}
                result => return result.map_err(refused),
            }
        }
        walk(root, path)
    }
}

/// How a directory is opened to start from. It need not be readable.
#[cfg(target_os = "linux")]
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// How a directory is opened to start from.
#[cfg(not(target_os = "linux"))]
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// `openat2` that stays beneath `root`. `AGAIN` is the answer when renames made it fail again and again.
#[cfg(target_os = "linux")]
fn beneath(root: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};

    const ATTEMPTS: u32 = 16;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // A mode without something to create is an error to openat2.
    let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
    for _ in 0..ATTEMPTS {
        match openat2(root, path, flags, mode, resolve) {
            Err(Host::AGAIN | Host::INTR) => {}
            result => return result,
        }
    }
    Err(Host::AGAIN)
}

/// What `openat2` means: a path that leads out is "cross-device" to it.
#[cfg(target_os = "linux")]
fn refused(error: Host) -> Errno {
    if error == Host::XDEV { Errno::Perm } else { error.into() }
}

/// Opens a directory component by component.
fn walk(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd> {
    let mut here = openat(root, ".", DIRECTORY, Mode::empty())?;
    let mut above = Vec::new();
    let mut links = 0;
    let mut rest = Vec::new();
    push_components(&mut rest, relative(path)?);
    while let Some(component) = rest.pop() {
        match &component[..] {
            b"" | b"." => {}
            b".." => here = above.pop().ok_or(Errno::Perm)?,
            name => match openat(&here, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(next) => above.push(std::mem::replace(&mut here, next)),
                Err(Host::NOTDIR | Host::LOOP) => {
                    let target = readlinkat(&here, name, Vec::new())
                        .map_err(|error| if error == Host::INVAL { Errno::NotDir } else { error.into() })?;
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::Loop);
                    }
                    push_components(&mut rest, relative(target.to_bytes())?);
                }
                Err(error) => return Err(error.into()),
            },
        }
    }
    Ok(here)
}

/// Puts the components of a path on a stack, the first on top.
fn push_components(stack: &mut Vec<Vec<u8>>, path: &[u8]) {
    stack.extend(path.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec));
}

/// The path, if it is one that starts where it is used.
pub(super) fn relative(path: &[u8]) -> Result<&[u8]> {
    match path.first() {
        None => Err(Errno::NoEnt),
        Some(b'/') => Err(Errno::Perm),
        Some(_) => Ok(path),
    }
}

/// The path that a link in `parent` stands for.
fn behind_link(parent: &[u8], target: &[u8], slash: bool) -> Result<Vec<u8>> {
    let mut path = Vec::with_capacity(parent.len() + target.len() + 2);
    if !parent.is_empty() {
        path.extend_from_slice(parent);
        path.push(b'/');
    }
    path.extend_from_slice(relative(target)?);
    if slash {
        path.push(b'/');
    }
    Ok(path)
}

/// A path taken apart at its last component.
struct Split<'a> {
    parent: &'a [u8],
    name: &'a [u8],
    /// Whether slashes are behind the name.
    slash: bool,
}

fn split(path: &[u8]) -> Result<Split<'_>> {
    let path = relative(path)?;
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let (body, slash) = (&path[..end], end < path.len());
    Ok(match body.iter().rposition(|byte| *byte == b'/') {
        Some(at) => Split { parent: &body[..at], name: &body[at + 1..], slash },
        None => Split { parent: b"", name: body, slash },
    })
}
