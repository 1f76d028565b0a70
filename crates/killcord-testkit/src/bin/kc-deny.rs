//! `kc-deny PROFILE... -- PROGRAM ARGS...`: becomes the program under a system-call filter, as container runtimes
//! install them.
//!
//! `clone3` (ENOSYS); `namespaces` (`unshare`, `setns` and `clone` with a namespace flag EPERM, `clone3` ENOSYS,
//! since a filter cannot see its flags); `pidfd` (`pidfd_open`, `pidfd_send_signal` ENOSYS; `clone` and `clone3`
//! still give them out); `openat2` (ENOSYS) and `openat2-forbidden` (EPERM); `mount` (EPERM);
//! `docker` = clone3 + namespaces + mount.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use killcord_sys::fixture::nr;
use killcord_testkit::life;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// The rules of one filter: no rule at a number means "always".
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn main() -> io::Result<()> {
    life::arm();
    let mut args = std::env::args_os().skip(1);
    // A filter has one answer, so each answer has its own filter.
    let (mut missing, mut forbidden) = (Rules::new(), Rules::new());
    for profile in args.by_ref().take_while(|arg| arg != "--") {
        match profile.to_str() {
            Some("clone3") => always(&mut missing, &[nr::CLONE3]),
            Some("namespaces") => namespaces(&mut missing, &mut forbidden)?,
            Some("pidfd") => always(&mut missing, &[nr::PIDFD_OPEN, nr::PIDFD_SEND_SIGNAL]),
            Some("openat2") => always(&mut missing, &[nr::OPENAT2]),
            Some("openat2-forbidden") => always(&mut forbidden, &[nr::OPENAT2]),
            Some("mount") => always(&mut forbidden, nr::MOUNTS),
            Some("docker") => {
                namespaces(&mut missing, &mut forbidden)?;
                always(&mut forbidden, nr::MOUNTS);
            }
            _ => {
                return Err(life::usage(
                    "the profiles are clone3, namespaces, pidfd, openat2, mount, docker",
                ));
            }
        }
    }
    let program = args.next().ok_or_else(|| life::usage("kc-deny PROFILE... -- PROGRAM ARGS..."))?;
    install(missing, nr::ENOSYS)?;
    install(forbidden, nr::EPERM)?;
    Err(Command::new(program).args(args).exec())
}

fn always(rules: &mut Rules, calls: &[i64]) {
    rules.extend(calls.iter().map(|call| (*call, Vec::new())));
}

fn namespaces(missing: &mut Rules, forbidden: &mut Rules) -> io::Result<()> {
    always(missing, &[nr::CLONE3]);
    always(forbidden, &[nr::UNSHARE, nr::SETNS]);
    let with_flag = |flag: &u64| {
        let set = SeccompCmpOp::MaskedEq(*flag);
        SeccompRule::new(vec![SeccompCondition::new(0, SeccompCmpArgLen::Qword, set, *flag)?])
    };
    let rules =
        nr::NAMESPACE_FLAGS.iter().map(with_flag).collect::<Result<_, _>>().map_err(io::Error::other)?;
    forbidden.insert(nr::CLONE, rules);
    Ok(())
}

fn install(rules: Rules, errno: u32) -> io::Result<()> {
    if rules.is_empty() {
        return Ok(());
    }
    let arch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch);
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(io::Error::other)?;
    // It sets no_new_privs, without which an ordinary user may not install a filter.
    apply_filter(&program).map_err(io::Error::other)
}
