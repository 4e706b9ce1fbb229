//! Sandbox of a service after set-up: it limits an attacker who has taken over this process.
//!
//! Files are confined first ([`files`], Landlock), before the service has threads, since that binds only the calling
//! thread and its later threads; system calls last ([`calls`], seccomp), on every thread. Both are irreversible. On a
//! kernel without one of them that part is left out; the service's line names the active parts: `sandbox=files,calls`.

mod calls;
mod files;

use super::plugin::Over;
use super::{Args, DispatcherArg, TransportArg};
use crate::decoder::DecoderArg;
use anyhow::Result;
use std::path::Path;

/// The confinement of a service so far.
#[derive(Debug)]
pub(super) struct Sandbox<'a> {
    /// The file that the service writes at its end.
    report: Option<&'a Path>,
    /// Why there is no confinement.
    off: Option<&'static str>,
    files: bool,
}

impl<'a> Sandbox<'a> {
    /// Confines files, before the service has threads. All files were read before, except for the paths that `files`
    /// lists.
    ///
    /// # Errors
    /// The kernel has Landlock and refuses, or the report's folder cannot be opened.
    pub(super) fn begin(args: &'a Args) -> Result<Self> {
        let report = args.json.as_deref().filter(|path| path.as_os_str() != "-");
        let mut sandbox = Self { report, off: reason(args), files: false };
        if sandbox.off.is_some() {
            return Ok(sandbox);
        }
        let ports = [args.metrics, args.rendezvous].map(|address| address.map(|address| address.port()));
        sandbox.files =
            files::confine(report, args.config.as_deref(), args.model.path(), ports.into_iter().flatten())?;
        Ok(sandbox)
    }

    /// Confines system calls, after all files were opened, all sockets bound and all threads started. Returns the pair
    /// of the service's line that names the active parts.
    ///
    /// # Errors
    /// The kernel has seccomp and refuses.
    pub(super) fn end(self) -> Result<String> {
        if let Some(reason) = self.off.filter(|&reason| reason != ASKED_FOR) {
            eprintln!("ringcall: no sandbox: {reason}");
        }
        let calls = self.off.is_none() && calls::confine(self.report.is_some())?;
        let parts: Vec<_> = [(self.files, "files"), (calls, "calls")]
            .into_iter()
            .filter(|part| part.0)
            .map(|part| part.1)
            .collect();
        Ok(format!(" sandbox={}", if parts.is_empty() { "off".to_owned() } else { parts.join(",") }))
    }
}

/// The reason if no sandbox was requested.
const ASKED_FOR: &str = "--no-sandbox";

/// Why a service is not confined, if it is not: libraries open files and devices that Ringcall does not know.
fn reason(args: &Args) -> Option<&'static str> {
    if args.no_sandbox {
        return Some(ASKED_FOR);
    }
    if args.dispatcher == Some(DispatcherArg::Device) {
        return Some("a GPU's driver opens what it needs while it runs");
    }
    match args.transport {
        Over::Plugin(_) => return Some("nobody knows what a transport's library needs"),
        Over::Own(TransportArg::Verbs) => {
            return Some("an adapter's library opens what it needs while it runs");
        }
        Over::Own(_) => (),
    }
    if args.model.loads_a_library() {
        return Some("nobody knows what an engine's library needs");
    }
    match args.experiment.decoder.family {
        Some(DecoderArg::Plugin(_)) => Some("nobody knows what a decoder's library needs"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{calls, files};
    use std::fs::File;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    /// This variable is set in the confined process of the test.
    const FOLDER: &str = "RINGCALL_TEST_SANDBOX";

    /// Allowed and forbidden operations, tried in a second process, which stays confined.
    #[test]
    fn what_is_not_needed_fails_and_what_is_needed_works() {
        if let Ok(folder) = std::env::var(FOLDER) {
            return confined(Path::new(&folder));
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        let name = "serve::sandbox::tests::what_is_not_needed_fails_and_what_is_needed_works";
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(FOLDER, folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{text}");
        if text.contains("without Landlock") {
            eprintln!("skipped: this kernel has no Landlock");
        }
        if text.contains("without seccomp") {
            eprintln!("skipped: this kernel has no seccomp");
        }
    }

    fn confined(folder: &Path) {
        let reports = folder.join("reports");
        std::fs::create_dir(&reports).unwrap();
        let report = reports.join("report.json");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let secret = folder.join("secret");

        let files = files::confine(Some(&report), None, None, std::iter::empty()).unwrap();
        if files {
            assert!(File::open(&secret).is_err() && File::create(folder.join("other")).is_err());
            assert!(TcpStream::connect(address).is_err() && TcpListener::bind("127.0.0.1:0").is_err());
            std::fs::read_to_string("/proc/self/net/udp").unwrap();
            // Threads that start later are confined, too.
            std::thread::spawn(move || assert!(File::open(secret).is_err())).join().unwrap();
        } else {
            eprintln!("without Landlock");
        }
        // A thread that exists already is confined as well.
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let earlier = std::thread::spawn(move || {
            wait.recv().unwrap();
            UdpSocket::bind("127.0.0.1:0").is_err()
        });
        let calls = calls::confine(true).unwrap();
        go.send(()).unwrap();
        assert_eq!(earlier.join().unwrap(), calls);
        if calls {
            assert!(UdpSocket::bind("127.0.0.1:0").is_err() && TcpListener::bind("127.0.0.1:0").is_err());
            assert!(Command::new("/bin/true").status().is_err());
            assert!(
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::CONT)
                    .is_err()
            );
        } else {
            eprintln!("without seccomp");
        }
        // The service's needs: datagrams, connections, threads, time, randomness, its report.
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert_eq!(socket.recv_from(&mut [0; 8]).unwrap().0, 1);
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err());
        std::thread::Builder::new()
            .name("named".to_owned())
            .spawn(|| std::thread::sleep(Duration::from_millis(1)))
            .unwrap()
            .join()
            .unwrap();
        crate::output::write_text(&report, "written").unwrap();
        crate::output::write_text(&report, "written again").unwrap();
        assert!(std::panic::catch_unwind(|| panic!("on purpose")).is_err());
    }

    #[test]
    fn without_a_report_nothing_is_written() {
        let Ok(folder) = std::env::var(FOLDER) else {
            let folder = tempfile::tempdir().unwrap();
            let name = "serve::sandbox::tests::without_a_report_nothing_is_written";
            let run = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name])
                .env(FOLDER, folder.path())
                .output()
                .unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
            return;
        };
        if calls::confine(false).unwrap() {
            let file = Path::new(&folder).join("file");
            assert!(File::create(&file).is_err() && std::fs::remove_dir(&folder).is_err());
            // Landlock, not seccomp, restricts reading.
            assert!(File::open("/proc/self/status").is_ok());
        }
    }
}
