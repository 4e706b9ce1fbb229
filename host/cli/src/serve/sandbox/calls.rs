//! System calls, restricted by seccomp to those that the threads of a service need. All other calls fail with `EPERM`.

use anyhow::{Context, Result};
use rustix::process::getpid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter_all_threads,
};
use std::collections::BTreeMap;

/// Calls allowed with any arguments.
const ANY: &[libc::c_long] = &[
    // Datagrams, incoming connections, existing sockets.
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Waiting, time, the processor.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_gettimeofday,
    libc::SYS_membarrier,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_restart_syscall,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    // Memory without code.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Open files.
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_statx,
    libc::SYS_write,
    libc::SYS_writev,
    // Threads and signals of this process.
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
];

/// Calls that only older architectures have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[libc::SYS_poll, libc::SYS_readlink, libc::SYS_stat, libc::SYS_lstat];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Calls that move a report to its path.
#[cfg(target_arch = "x86_64")]
const REPORT: &[libc::c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fdatasync,
    libc::SYS_fsync,
    libc::SYS_rename,
    libc::SYS_renameat2,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
];
#[cfg(not(target_arch = "x86_64"))]
const REPORT: &[libc::c_long] =
    &[libc::SYS_fchmod, libc::SYS_fdatasync, libc::SYS_fsync, libc::SYS_renameat2, libc::SYS_unlinkat];

/// Forbids calls that a running service does not need, on every thread of this process. `writes` allows writing a
/// report at the end. Returns whether this kernel has seccomp.
pub(super) fn confine(writes: bool) -> Result<bool> {
    let Ok(arch) = std::env::consts::ARCH.try_into() else { return Ok(false) };
    // The flags of clone3 are in memory, which a filter cannot read. If the call seems to be missing, the C library
    // uses clone.
    let no_clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let errno = |errno: i32| SeccompAction::Errno(errno.unsigned_abs());
    let filters = [
        SeccompFilter::new(no_clone3, SeccompAction::Allow, errno(libc::ENOSYS), arch)?,
        SeccompFilter::new(rules(writes)?, errno(libc::EPERM), SeccompAction::Allow, arch)?,
    ];
    for filter in filters {
        let program: BpfProgram = filter.try_into().context("seccomp")?;
        match apply_filter_all_threads(&program) {
            Ok(()) => (),
            Err(seccompiler::Error::Seccomp(error)) if is_missing(&error) => return Ok(false),
            Err(error) => return Err(error).context("seccomp"),
        }
    }
    Ok(true)
}

/// Whether the kernel has no filters, or the parent process forbids them.
fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EPERM))
}

fn rules(writes: bool) -> Result<BTreeMap<libc::c_long, Vec<SeccompRule>>> {
    let mut rules: BTreeMap<_, _> = ANY.iter().chain(OLDER).map(|&call| (call, Vec::new())).collect();
    if writes {
        rules.extend(REPORT.iter().map(|&call| (call, Vec::new())));
    }
    let equals =
        |index, value: i64| SeccompCondition::new(index, Length::Dword, Op::Eq, value.cast_unsigned());
    let lacks = |index, bits: i32| {
        let bits = u64::from(bits.cast_unsigned());
        SeccompCondition::new(index, Length::Dword, Op::MaskedEq(bits), 0)
    };
    let mut only = |call, condition: Result<SeccompCondition, _>| -> Result<()> {
        let rule = SeccompRule::new(vec![condition?])?;
        rules.entry(call).or_insert_with(Vec::new).push(rule);
        Ok(())
    };
    // Memory never becomes code.
    only(libc::SYS_mmap, lacks(2, libc::PROT_EXEC))?;
    only(libc::SYS_mprotect, lacks(2, libc::PROT_EXEC))?;
    // Threads, but no processes.
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    only(libc::SYS_clone, SeccompCondition::new(0, Length::Dword, Op::MaskedEq(thread), thread))?;
    only(libc::SYS_tgkill, equals(0, i64::from(getpid().as_raw_nonzero().get())))?;
    only(libc::SYS_prctl, equals(0, i64::from(libc::PR_SET_NAME)))?;
    // A service manager listens at a local socket.
    only(libc::SYS_socket, equals(0, i64::from(libc::AF_UNIX)))?;
    for request in [libc::FIONBIO, libc::FIONREAD, libc::TCGETS, libc::TIOCGWINSZ] {
        // The argument's type differs between C libraries.
        only(libc::SYS_ioctl, equals(1, request as i64))?;
    }
    if writes {
        rules.insert(libc::SYS_openat, Vec::new());
    } else {
        only(libc::SYS_openat, lacks(2, libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC))?;
    }
    Ok(rules)
}
