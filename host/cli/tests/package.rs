//! What packages need of the command: the manual, completions, and messages to a service manager.

use assert_cmd::Command;
use std::error::Error;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn Error>>;

#[test]
fn the_manual_has_a_page_for_each_command() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().to_string_lossy().into_owned();
    Command::cargo_bin("ringcall")?.args(["man", &path]).assert().success();
    for (page, words) in [("ringcall.1", "ringcall\\-sweep(1)"), ("ringcall-sweep.1", "\\-\\-shard")] {
        let text = std::fs::read_to_string(folder.path().join(page))?;
        assert!(text.contains(words), "no `{words}` in {page}: {text}");
    }
    assert!(!folder.path().join("ringcall-man.1").exists());
    let missing = Command::cargo_bin("ringcall")?.args(["man", "/no/such/folder"]).output()?;
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8(missing.stderr)?.contains("/no/such/folder"));
    Ok(())
}

#[test]
fn completions_know_commands_and_options() -> Outcome {
    for shell in ["bash", "fish", "zsh"] {
        let output = Command::cargo_bin("ringcall")?.args(["completions", shell]).output()?;
        let text = String::from_utf8(output.stdout)?;
        assert!(output.status.success() && text.contains("sweep") && text.contains("sinter-csv"), "{shell}");
    }
    assert_eq!(
        Command::cargo_bin("ringcall")?.args(["completions", "none"]).output()?.status.code(),
        Some(2)
    );
    Ok(())
}

/// Starts the command as systemd starts a service of `Type=notify` with a watchdog.
#[test]
fn a_service_tells_its_manager_how_it_is() -> Outcome {
    let folder = tempfile::tempdir()?;
    let address = folder.path().join("notify");
    let manager = UnixDatagram::bind(&address)?;
    manager.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut service = std::process::Command::new(env!("CARGO_BIN_EXE_ringcall"))
        .args(["serve", "--seconds", "1", "--distance", "3"])
        .env("NOTIFY_SOCKET", &address)
        .env("WATCHDOG_USEC", "200000")
        .stdout(std::process::Stdio::null())
        .spawn()?;
    let (mut words, begin) = (Vec::new(), Instant::now());
    while !words.iter().any(|word| word == "STOPPING=1") {
        assert!(begin.elapsed() < Duration::from_secs(120), "{words:?}");
        let mut datagram = [0; 4096];
        let length = match manager.recv(&mut datagram) {
            // A process that was stopped and goes on: a wait with a limit does not go on by itself.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            length => length?,
        };
        words.extend(std::str::from_utf8(&datagram[..length])?.lines().map(str::to_owned));
    }
    assert!(service.wait()?.success());
    let place = |word: &str| words.iter().position(|known| known == word);
    assert_eq!(place("READY=1"), Some(0), "{words:?}");
    assert!(words[1].starts_with("STATUS=") && place("WATCHDOG=1").is_some(), "{words:?}");
    assert_eq!(place("STOPPING=1"), Some(words.len() - 1), "{words:?}");
    Ok(())
}
