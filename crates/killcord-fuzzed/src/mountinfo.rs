use crate::input::Input;
use killcord_sys::fuzzing::{mounts, moved, own_path, unescaped};
use std::path::Path;

/// Lists of mounts, whose paths may hold any byte but zero, escaped as the kernel does (`proc_pid_mountinfo(5)`).
pub fn mountinfo(data: &[u8]) {
    let taken: usize = mounts(data).iter().map(|(root, point)| root.len() + point.len()).sum();
    assert!(taken <= data.len());
    let mut input = Input(data);
    let (root, point, below) = (input.until(0), input.until(0), input.until(0));
    paths(root, point, below);
    let text = String::from_utf8_lossy(data);
    // Whatever these are, nothing is found above what is mounted.
    if let Some(path) = own_path(&text, &text, None).or_else(|| own_path(&text, &text, Some("memory"))) {
        assert!(!path.to_string_lossy().is_empty());
    }
    cgroup(root, point, below);
}

/// A path in a file of the kernel's.
fn escaped(path: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        other => vec![*other],
    };
    path.iter().flat_map(escape).collect()
}

fn line(root: &[u8], point: &[u8], behind: &str) -> Vec<u8> {
    [b"39 29 0:36 /", &*escaped(root), b" /", &*escaped(point), b" rw shared:3 - ", behind.as_bytes()]
        .concat()
}

fn paths(root: &[u8], point: &[u8], below: &[u8]) {
    assert_eq!(unescaped(&escaped(root)), root);
    let list = [line(root, point, "ext4 /dev/x rw\n"), line(point, root, "proc proc rw\n")].concat();
    let (root, point) = ([b"/", root].concat(), [b"/", point].concat());
    assert_eq!(mounts(&list), [(root.clone(), point.clone()), (point.clone(), root.clone())]);
    let path = [root.strip_suffix(b"/").unwrap_or(&root), b"/", below].concat();
    let there = moved(&path, &root, &point).unwrap();
    assert!(there.starts_with(point.strip_suffix(b"/").unwrap_or(&point)));
    assert_eq!(moved(&there, &point, &root), Some(path));
}

/// A process of a cgroup below what is mounted finds its own directory, whatever its names are.
fn cgroup(root: &[u8], point: &[u8], below: &[u8]) {
    let [Ok(root), Ok(point), Ok(below)] = [root, point, below].map(std::str::from_utf8) else { return };
    // A mount of the top is written as that, and no cgroup has a name with a newline or two slashes in it.
    let root = root.trim_matches('/');
    if [root, below]
        .iter()
        .any(|path| path.contains(['\n', '\r']) || path.contains("//") || path.contains(".."))
    {
        return;
    }
    let list = line(root.as_bytes(), point.as_bytes(), "cgroup2 cgroup2 rw,nsdelegate\n");
    let list = String::from_utf8(list).unwrap();
    let own = match root {
        "" => format!("/{below}"),
        root => format!("/{root}/{below}"),
    };
    let found = own_path(&list, &format!("1:name=systemd:/\n0::{own}\n"), None);
    let expected = Path::new(&format!("/{point}")).join(below.trim_start_matches('/'));
    assert_eq!(found, Some(expected), "{list:?}, {own:?}");
}
