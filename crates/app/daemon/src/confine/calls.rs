//! The system calls that no daemon makes after its start. A filter refuses them in all threads, and
//! in all children, with EPERM.
//!
//! The filter lists forbidden calls, not permitted ones: it is inherited by programs of the system
//! (udevadm), by the program of an upgrade, and used with other C libraries than the one it was
//! tested with. Where the list of permitted calls can be stated, in the units, it is
//! (`SystemCallFilter`).

use block::stable_hash;
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};
use std::collections::BTreeMap;

/// Calls that are refused whatever their arguments are.
const FORBIDDEN: &[c_long] = &[
    // Other processes' memory, registers and files.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // The kernel itself.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_syslog,
    // Keys.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Name spaces, mounts, and files by other ways than their names.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_mknodat,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_execveat,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_personality,
    libc::SYS_vhangup,
];

/// Further ones of this processor.
#[cfg(target_arch = "x86_64")]
const OF_PROCESSOR: &[c_long] = &[
    libc::SYS_mknod,
    libc::SYS_modify_ldt,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_uselib,
    libc::SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const OF_PROCESSOR: &[c_long] = &[];

/// Flags of clone(2) that create name spaces. CLONE_NEWTIME is not a flag of that call.
const NAMESPACES: i32 = libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS;

/// Kinds of sockets that the daemon and its children use.
const SOCKETS: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Calls of a process that only computes with what it reads from open descriptors.
const OF_READER: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_fcntl,
    libc::SYS_close,
    libc::SYS_ppoll,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Forbids the calls, unless this filter is in force already. Returns the filter's fingerprint.
///
/// # Errors
/// The reason why not, for an operator.
pub(super) fn confine(mounts: bool, in_force: u64) -> Result<u64, String> {
    let program = filter(mounts).map_err(|error| error.to_string())?;
    let fingerprint = stable_hash(format!("{program:?}").bytes());
    if fingerprint != in_force {
        seccompiler::apply_filter_all_threads(&program).map_err(|error| error.to_string())?;
    }
    Ok(fingerprint)
}

/// Forbids this process, which has one thread, all calls but those of a reader.
///
/// # Errors
/// The reason why not, for an operator.
pub(super) fn confine_reader() -> Result<(), String> {
    let program = filter_of_reader().map_err(|error| error.to_string())?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}

/// Returns the filter of a reader.
fn filter_of_reader() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = BTreeMap::new();
    for call in OF_READER {
        rules.insert(*call, Vec::new());
    }
    let not_executable = SeccompRule::new(vec![argument(2, SeccompCmpOp::MaskedEq(EXEC), 0)?])?;
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![not_executable.clone()]);
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let machine = std::env::consts::ARCH.try_into()?;
    let listed = SeccompFilter::new(rules, refused, SeccompAction::Allow, machine)?;
    let listed: BpfProgram = listed.try_into()?;
    Ok(unlisted().into_iter().chain(listed).collect())
}

/// Returns the filter. A daemon that `mounts` itself, without a broker, may mount and unmount.
fn filter(mounts: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = BTreeMap::new();
    let mounting = [libc::SYS_mount, libc::SYS_umount2];
    let mounting = if mounts { &[][..] } else { &mounting[..] };
    for call in [FORBIDDEN, OF_PROCESSOR, mounting].concat() {
        rules.insert(call, Vec::new());
    }
    let one_of = |flags: i32| {
        let bits = (0..i32::BITS).map(|bit| 1u64 << bit);
        let set = bits.filter(move |bit| flags as u32 as u64 & bit != 0);
        set.map(|bit| SeccompRule::new(vec![argument(0, SeccompCmpOp::MaskedEq(bit), bit)?]))
            .collect::<Result<Vec<_>, _>>()
    };
    rules.insert(libc::SYS_clone, one_of(NAMESPACES)?);
    let other_kind = SOCKETS.map(|kind| argument(0, SeccompCmpOp::Ne, kind as u64));
    let other_kind = other_kind.into_iter().collect::<Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(other_kind)?]);
    // Memory that can be executed is never writable, and never was.
    let executable = argument(2, SeccompCmpOp::MaskedEq(EXEC), EXEC)?;
    rules.insert(libc::SYS_mprotect, vec![SeccompRule::new(vec![executable.clone()])?]);
    rules.insert(libc::SYS_pkey_mprotect, vec![SeccompRule::new(vec![executable])?]);
    let both = argument(2, SeccompCmpOp::MaskedEq(EXEC | WRITE), EXEC | WRITE)?;
    rules.insert(libc::SYS_mmap, vec![SeccompRule::new(vec![both])?]);
    // Input for a terminal, as if its user had typed it.
    let typing = argument(1, SeccompCmpOp::Eq, libc::TIOCSTI)?;
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(vec![typing])?]);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let machine = std::env::consts::ARCH.try_into()?;
    let listed = SeccompFilter::new(rules, SeccompAction::Allow, refused, machine)?;
    let listed: BpfProgram = listed.try_into()?;
    Ok(unlisted().into_iter().chain(listed).collect())
}

const EXEC: u64 = libc::PROT_EXEC as u64;
const WRITE: u64 = libc::PROT_WRITE as u64;

/// Returns a condition on the lower half of an argument.
fn argument(
    index: u8,
    comparison: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, comparison, value)
}

/// Returns the beginning of the filter, for calls that the list cannot have. Both are answered with
/// ENOSYS, as by a kernel without them. clone3(2): its flags are in memory, which no filter can
/// read; C libraries use clone(2) then. The x32 interface of x86-64: the same calls by other
/// numbers.
fn unlisted() -> Vec<sock_filter> {
    // Sources: linux/bpf_common.h, linux/seccomp.h.
    const LOAD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32_FIRST: u32 = 0x4000_0000;
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        // The first field of `struct seccomp_data`: the number of the call.
        instruction(LOAD, 0, 0, 0),
        instruction(JUMP_IF_EQUAL, 1, 0, libc::SYS_clone3 as u32),
        instruction(JUMP_IF_AT_LEAST, 0, 1, X32_FIRST),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_differs_with_its_calls_and_is_the_same_each_time() {
        let print =
            |mounts| stable_hash(format!("{:?}", filter(mounts).expect("a filter")).bytes());
        assert_eq!(print(true), print(true));
        assert_ne!(print(true), print(false));
    }

    #[test]
    fn a_filter_is_short_enough_for_many_upgrades() {
        // The kernel's limit is 32,768 instructions for all filters of a process.
        assert!(filter(false).expect("a filter").len() < 400);
    }
}
