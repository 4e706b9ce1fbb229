//! Files and TCP ports, restricted by Landlock to those that the calling thread and its later threads may open.

use anyhow::{Context, Result};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use std::path::{Path, PathBuf};

/// The requested version of Landlock. An older kernel provides what it has.
const ABI_ASKED: ABI = ABI::V6;

/// Paths that a running service reads: its sockets' drops, its threads; cores and their limits when a thread starts;
/// free memory when a configuration is read again.
const READ: [&str; 5] =
    ["/proc/self", "/proc/stat", "/proc/meminfo", "/sys/devices/system/cpu", "/sys/fs/cgroup"];

/// Forbids every file but those of [`READ`], the report, the model and the configuration's folder, which SIGHUP reads
/// again; every outgoing TCP connection; and listening at other ports than these. Returns whether this kernel has
/// Landlock.
pub(super) fn confine(
    report: Option<&Path>,
    config: Option<&Path>,
    model: Option<&Path>,
    ports: impl Iterator<Item = u16>,
) -> Result<bool> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI_ASKED))?
        .handle_access(AccessNet::from_all(ABI_ASKED))?
        .scope(scopes())?
        .create()
        .context("Landlock")?;
    // A missing path needs no rule.
    for path in READ.into_iter().filter(|path| Path::new(path).exists()) {
        ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new(path)?, AccessFs::from_read(ABI_ASKED)))?;
    }
    // The folder, because a new file may take the old one's name.
    if let Some(folder) = config.and_then(Path::parent) {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let fd = PathFd::new(folder).with_context(|| format!("{}", folder.display()))?;
        ruleset = ruleset.add_rule(PathBeneath::new(fd, AccessFs::ReadFile))?;
    }
    // A missing model is refused where it is read.
    if let Some(model) = model.filter(|model| model.exists()) {
        let fd = PathFd::new(model).with_context(|| format!("{}", model.display()))?;
        ruleset = ruleset.add_rule(PathBeneath::new(fd, AccessFs::ReadFile))?;
    }
    if let Some(report) = report {
        for place in places(report) {
            let place_fd = PathFd::new(&place).with_context(|| format!("{}", place.display()))?;
            ruleset = ruleset.add_rule(PathBeneath::new(place_fd, writing(&place)))?;
        }
    }
    for port in ports {
        ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::BindTcp))?;
    }
    let status = ruleset.restrict_self().context("Landlock")?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// Signals to other processes, and their abstract sockets, unless a service manager listens at one.
fn scopes() -> BitFlags<Scope> {
    let told =
        std::env::var_os("NOTIFY_SOCKET").is_some_and(|name| name.as_encoded_bytes().starts_with(b"@"));
    if told { Scope::Signal.into() } else { Scope::from_all(ABI_ASKED) }
}

/// The paths that a report needs: its folder, to which a link may lead, or a device or pipe.
fn places(report: &Path) -> Vec<PathBuf> {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    match report.canonicalize() {
        Ok(there) if there.is_file() => vec![parent(&there)],
        Ok(there) => vec![there],
        Err(_) => vec![parent(report)],
    }
}

/// The rights on such a path: a file next to the report that takes its name, or writing.
fn writing(place: &Path) -> BitFlags<AccessFs> {
    let file = AccessFs::WriteFile | AccessFs::Truncate;
    if place.is_dir() { file | AccessFs::MakeReg | AccessFs::RemoveFile } else { file }
}
