//! `fd_readdir` and its cookies.

use std::collections::BTreeMap;

use super::*;
use crate::number::to_usize;

/// Name, next cookie, type.
type Entry = (String, u64, u8);

/// Entries of descriptor 3 from a cookie on, with a buffer of that size. Also how many bytes were used.
fn entries(process: &Process, cookie: u64, room: u64) -> Result<(Vec<Entry>, u64)> {
    let at = process.guest.space(to_usize(room));
    let used = process.guest.space(4);
    process.call().fd_readdir(3, at, room, cookie, used)?;
    let used = u64::from(process.guest.u32(used));
    let bytes = process.guest.get(at, to_usize(used));
    let mut rest = &bytes[..];
    let mut found = Vec::new();
    while rest.len() >= 24 {
        let next = u64::from_le_bytes(rest[..8].try_into().unwrap());
        let length = u32::from_le_bytes(rest[16..20].try_into().unwrap()) as usize;
        let Some(name) = rest.get(24..24 + length) else { break };
        found.push((String::from_utf8(name.to_vec()).unwrap(), next, rest[20]));
        rest = &rest[24 + length..];
    }
    Ok((found, used))
}

fn with_files(count: u32) -> (TempDir, Process) {
    in_directory(true, Resolver::Kernel, |path| {
        for n in 0..count {
            std::fs::write(path.join(format!("file{n:03}")), "").unwrap();
        }
        std::fs::create_dir(path.join("directory")).unwrap();
        std::os::unix::fs::symlink("nowhere", path.join("link")).unwrap();
    })
}

#[test]
fn every_entry_once_with_its_type() {
    let (_outer, process) = with_files(2);
    let (found, used) = entries(&process, 0, 4096).unwrap();
    assert!(used < 4096, "a buffer that is not full says that this is all");
    let kinds: BTreeMap<_, _> = found.into_iter().map(|(name, _, kind)| (name, kind)).collect();
    let expected = [(".", 3), ("..", 3), ("directory", 3), ("file000", 4), ("file001", 4), ("link", 7)]
        .map(|(name, kind)| (name.to_owned(), kind));
    assert_eq!(kinds, BTreeMap::from(expected));
}

#[test]
fn any_buffer_size_sees_the_same_directory() {
    let (_outer, process) = with_files(300);
    for room in [64, 100, 512, 5000, 30_000] {
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            let (found, used) = entries(&process, cookie, room).unwrap();
            let Some((_, last, _)) = found.last() else { break };
            cookie = *last;
            names.extend(found.into_iter().map(|(name, ..)| name));
            if used < room {
                break;
            }
        }
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!((count, names.len()), (304, 304), "room {room}");
    }
}

#[test]
fn a_cookie_goes_on_where_it_was_taken() {
    let (outer, process) = with_files(20);
    let (all, _) = entries(&process, 0, 4096).unwrap();
    let middle = all[9].1;
    std::fs::remove_file(outer.path().join("inside").join("file007")).unwrap();
    let (rest, _) = entries(&process, middle, 4096).unwrap();
    let expected: Vec<_> = all[10..].iter().filter(|(name, ..)| name != "file007").map(|(name, ..)| name).collect();
    let seen: Vec<_> = rest.iter().map(|(name, ..)| name).collect();
    assert_eq!(seen, expected);
    let (end, used) = entries(&process, all.last().unwrap().1, 4096).unwrap();
    assert_eq!((end.len(), used), (0, 0));
}

#[test]
fn the_last_entry_is_cut_where_the_buffer_ends() {
    let (_outer, process) = with_files(2);
    for room in 0..100 {
        let (_, used) = entries(&process, 0, room).unwrap();
        assert_eq!(used, room, "a full buffer says that there is more");
    }
    let at = MEMORY as u64 - 10;
    assert_eq!(process.call().fd_readdir(3, at, 100, 0, 0), Err(Errno::Fault));
    assert_eq!(entries(&process, u64::MAX, 100), Err(Errno::Inval));
}
