use crate::input::Input;
use killcord_sys::fuzzing;
use killcord_sys::proc::Stat;

/// The files of `/proc/PID`: a process may have any name, and the numbers are the kernel's whatever it is.
pub fn proc(data: &[u8]) {
    if let Some(stat) = Stat::parse(data) {
        let name = stat.command();
        assert!(name.chars().count() <= 15 && !name.contains(char::is_control), "{name:?}");
        let again = Stat::parse(&line(&stat, name.as_bytes())).unwrap();
        assert!(!name.is_ascii() || again.command() == name);
        assert_eq!(numbers(&stat), numbers(&again));
    }
    any_name(&data[..data.len().min(64)]);
    let cut = Input(data).byte();
    children(data, 1 + usize::from(cut % 9));
    small_files(data);
}

fn numbers(stat: &Stat) -> (u32, u8, u32, u32, u32, u32, u64) {
    (stat.pid, stat.state, stat.parent, stat.group, stat.session, stat.threads, stat.start)
}

/// The line as the kernel writes it (`proc_pid_stat(5)`).
fn line(stat: &Stat, name: &[u8]) -> Vec<u8> {
    let Stat { pid, parent, group, session, threads, start, state, .. } = stat;
    let front = format!("{pid} (");
    let behind = format!(" {parent} {group} {session} 0 -1 1 1 0 0 0 0 0 0 0 20 0 {threads} 0 {start} 1 2\n");
    [front.as_bytes(), name, b") ", &[*state], behind.as_bytes()].concat()
}

fn any_name(name: &[u8]) {
    let plain = Stat::parse(b"42 (x) S 7 8 9 0 -1 1 1 0 0 0 0 0 0 0 20 0 3 0 12345 1 2\n").unwrap();
    let named = Stat::parse(&line(&plain, name)).unwrap();
    assert_eq!(numbers(&named), numbers(&plain), "{name:?}");
}

/// Numbers with anything between them, read in parts.
fn children(data: &[u8], cut: usize) {
    let read = fuzzing::children(data.chunks(cut));
    let numbers = data.split(|byte| !byte.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let numbers = numbers.filter_map(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
    assert_eq!(read, numbers.filter(|number| *number != 0).collect::<Vec<_>>());
}

fn small_files(data: &[u8]) {
    if let Some(session) = fuzzing::audit_session(data) {
        assert_eq!(fuzzing::audit_session(session.to_string().as_bytes()), Some(session));
    }
    if let Some(bytes) = fuzzing::resident(data) {
        assert_eq!(bytes % 4096, 0, "{bytes} are no pages");
    }
    let set = [data, b"\0KILLCORD_JOB=1\0"].concat();
    assert!(fuzzing::has_variable(&set, "KILLCORD_JOB=1"));
    let longer = [data, b"\0KILLCORD_JOB=12\0XKILLCORD_JOB=1\0"].concat();
    assert_eq!(
        fuzzing::has_variable(&longer, "KILLCORD_JOB=1"),
        fuzzing::has_variable(data, "KILLCORD_JOB=1")
    );
    let text = String::from_utf8_lossy(data);
    if !text.contains("oom_kill ") {
        let file = format!("{text}\noom_kill 7\n");
        assert_eq!(fuzzing::value_of(&file, "oom_kill"), Some(7), "{file:?}");
    }
}
