//! The program as a user runs it, with a GPU or without.

use assert_cmd::Command;
use example_handlers::HANDLERS;
use ringcall_cuda::driver::Driver;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_example-handlers"))
}

#[test]
fn every_answer_is_right_and_each_line_says_where_it_ran() {
    let output = program().args(["--requests", "40"]).output().expect("ran");
    let text = String::from_utf8(output.stdout).expect("text");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");

    let expected = match Driver::load().and_then(|driver| driver.device(0)).and_then(|device| {
        device.context()?;
        device.name()
    }) {
        Err(why) => vec![format!("the CPU: {why}")],
        // With a GPU the handlers run on it, if whoever built this had a device toolchain.
        Ok(name) => vec![name, "the CPU: this program was built without a device toolchain".to_owned()],
    };
    let lines: Vec<&str> = text.lines().collect();
    let (stopped, handlers) = lines.split_last().expect("lines");
    assert_eq!(handlers.len(), HANDLERS.len(), "{text}");
    let all = |runs_on: &String| {
        HANDLERS.iter().zip(handlers).all(|(handler, line)| {
            *line
                == format!("{} ({:?}): 40 of 40 answers right, run by {runs_on}", handler.name, handler.kind)
        })
    };
    assert!(expected.iter().any(all), "{text}\nexpected to run on one of {expected:?}");
    assert!(stopped.starts_with("stopped: ") && stopped.contains(" drained, 0 refused"), "{stopped}");
}

#[test]
fn no_requests_would_prove_nothing() {
    let output = program().args(["--requests", "0"]).output().expect("ran");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--requests"));
}
