//! The CPU quota of a process's control groups, versions 1 and 2, from the texts that the kernel gives.
//!
//! A quota is so many µs of CPU time in so many µs of time; each group between the process's own and the root of the
//! hierarchy may have one, and the smallest counts. Source: the kernel's `admin-guide/cgroup-v2`, `cgroup-v1` and
//! `proc_pid_mountinfo(5)`. Where in the file system the groups are is found once: processes are seldom moved.

use std::path::{Component, Path, PathBuf};

/// A directory that may hold a quota.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct QuotaDir {
    version: Version,
    path: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    One,
    Two,
}

/// The process's group and all groups above it, in each hierarchy that controls CPU time, from `/proc/self/cgroup` and
/// `/proc/self/mountinfo`.
pub(super) fn quota_dirs(cgroup: &str, mountinfo: &str) -> Vec<QuotaDir> {
    let mut dirs = Vec::new();
    for (version, group) in cgroup.lines().filter_map(membership) {
        let Some(mount) = mountinfo.lines().filter_map(mount).find(|mount| mount.version == version) else {
            continue;
        };
        let inside = mount.relative(Path::new(group));
        let path = mount.point.join(inside);
        let above = path.ancestors().take_while(|dir| dir.starts_with(&mount.point));
        dirs.extend(above.map(|dir| QuotaDir { version, path: dir.to_path_buf() }));
    }
    dirs
}

/// The smallest quota in whole CPUs, rounded down, at least 1; `None` where there is none. `read` gives a file's text.
pub(super) fn quota(dirs: &[QuotaDir], read: impl Fn(&Path) -> Option<String>) -> Option<u32> {
    let of = |dir: &QuotaDir| match dir.version {
        Version::One => {
            let (time, period) =
                (read(&dir.path.join("cpu.cfs_quota_us"))?, read(&dir.path.join("cpu.cfs_period_us"))?);
            whole_cpus(&time, &period)
        }
        Version::Two => {
            let text = read(&dir.path.join("cpu.max"))?;
            let (time, period) = text.trim().split_once(' ')?;
            whole_cpus(time, period)
        }
    };
    dirs.iter().filter_map(of).min()
}

/// `time` is "max" or −1 where there is no limit.
fn whole_cpus(time: &str, period: &str) -> Option<u32> {
    let time: u64 = time.trim().parse().ok()?;
    let period: u64 = period.trim().parse().ok()?;
    let cpus = time.checked_div(period)?.max(1);
    Some(u32::try_from(cpus).unwrap_or(u32::MAX))
}

/// A line of `/proc/self/cgroup`, `ID:CONTROLLERS:PATH`, if its hierarchy is about CPU time.
fn membership(line: &str) -> Option<(Version, &str)> {
    let (id, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    if id == "0" && controllers.is_empty() {
        Some((Version::Two, path))
    } else if controllers.split(',').any(|name| name == "cpu") {
        Some((Version::One, path))
    } else {
        None
    }
}

/// Where a hierarchy is mounted.
struct Mount {
    version: Version,
    /// The group that the mount point shows; not `/` in some containers.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// A group's path below the mount point. A group outside of what is mounted leaves only the mount point itself.
    fn relative<'a>(&self, group: &'a Path) -> &'a Path {
        let inside = group.strip_prefix(&self.root).unwrap_or(Path::new(""));
        let plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
        if plain { inside } else { Path::new("") }
    }
}

/// A line of `/proc/self/mountinfo`: `ID PARENT DEVICE ROOT POINT OPTIONS [TAGS] - TYPE SOURCE OPTIONS`.
fn mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, point) = (unescape(place.next()?), unescape(place.next()?));
    let mut kind = kind.split(' ');
    let version = match (kind.next()?, kind.nth(1)) {
        ("cgroup2", _) => Version::Two,
        ("cgroup", Some(options)) if options.split(',').any(|name| name == "cpu") => Version::One,
        _ => return None,
    };
    Some(Mount { version, root, point })
}

/// Undoes the octal escapes for the four characters that would break the format.
fn unescape(text: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2_MOUNT: &str = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1_MOUNT: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
        33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct\n";

    fn paths(cgroup: &str, mountinfo: &str) -> Vec<String> {
        quota_dirs(cgroup, mountinfo).iter().map(|dir| dir.path.display().to_string()).collect()
    }

    fn cpus(cgroup: &str, mountinfo: &str, files: &[(&str, &str)]) -> Option<u32> {
        let read = |path: &Path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).into());
        quota(&quota_dirs(cgroup, mountinfo), read)
    }

    #[test]
    fn all_groups_up_to_the_mount_point() {
        let found = paths("0::/system.slice/guest.service\n", V2_MOUNT);
        assert_eq!(
            found,
            ["/sys/fs/cgroup/system.slice/guest.service", "/sys/fs/cgroup/system.slice", "/sys/fs/cgroup"]
        );
        assert_eq!(paths("3:cpuset:/a\n2:cpu,cpuacct:/b\n", V1_MOUNT).len(), 2);
        assert_eq!(paths("0::/\n", V2_MOUNT), ["/sys/fs/cgroup/"]);
    }

    #[test]
    fn containers_and_strangers() {
        let docker = V2_MOUNT.replace("0:26 / ", "0:26 /docker/abc ");
        assert_eq!(paths("0::/docker/abc/inner", &docker), ["/sys/fs/cgroup/inner", "/sys/fs/cgroup"]);
        assert_eq!(paths("0::/elsewhere", &docker), ["/sys/fs/cgroup/"]);
        assert_eq!(paths("0::/../../outside", V2_MOUNT), ["/sys/fs/cgroup/"]);
        assert_eq!(
            paths("0::/a", &V2_MOUNT.replace("/sys/fs/cgroup", "/odd\\040place")),
            ["/odd place/a", "/odd place"]
        );
    }

    #[test]
    fn version_two() {
        let at = |text| cpus("0::/a/b", V2_MOUNT, &[("/sys/fs/cgroup/a/b/cpu.max", text)]);
        assert_eq!(at("max 100000\n"), None);
        assert_eq!(at("350000 100000\n"), Some(3));
        assert_eq!(at("50000 100000\n"), Some(1));
        assert_eq!(at("200000 50000\n"), Some(4));
    }

    #[test]
    fn version_one() {
        let at = |time| {
            let dir = "/sys/fs/cgroup/cpu,cpuacct/box";
            let files = [(format!("{dir}/cpu.cfs_quota_us"), time), (format!("{dir}/cpu.cfs_period_us"), "100000\n")];
            let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
            cpus("4:memory:/x\n2:cpu,cpuacct:/box\n", V1_MOUNT, &files)
        };
        assert_eq!(at("-1\n"), None);
        assert_eq!(at("250000\n"), Some(2));
    }

    #[test]
    fn the_smallest_quota_on_the_way_up_counts() {
        let files = [("/sys/fs/cgroup/a/b/cpu.max", "800000 100000"), ("/sys/fs/cgroup/a/cpu.max", "200000 100000")];
        assert_eq!(cpus("0::/a/b", V2_MOUNT, &files), Some(2));
    }

    #[test]
    fn nonsense_is_no_quota() {
        for text in ["", "max", "1", "x y", "100000 0", "-5 100000", "18446744073709551616 1"] {
            assert_eq!(cpus("0::/a", V2_MOUNT, &[("/sys/fs/cgroup/a/cpu.max", text)]), None, "{text:?}");
        }
        for (cgroup, mountinfo) in [("", ""), ("0::", "- -"), ("::", "a b c d e - cgroup2"), ("1:cpu", V1_MOUNT)] {
            assert_eq!(cpus(cgroup, mountinfo, &[]), None, "{cgroup:?} {mountinfo:?}");
        }
    }
}
