//! Runs the handlers of `example-handlers` on the first GPU, or on the CPU where there is none, and checks their answers.

mod dispatcher;
mod requests;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use dispatcher::Dispatcher;
use example_handlers::HANDLERS;
use ringcall::Client;
use ringcall_handler::c_header;
use std::path::PathBuf;

// `PTX`: the handlers, compiled for devices by the build script.
include!(concat!(env!("OUT_DIR"), "/example_handlers_ptx.rs"));

/// Sends requests to handlers on the first GPU, or on the CPU where there is none, and checks every answer.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How many requests each handler gets.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Write the calling side of the handlers for programs in C, as a header, and end.
    #[arg(long, value_name = "FILE")]
    c_header: Option<PathBuf>,
}

fn main() -> Result<()> {
    let options = Arguments::parse();
    if let Some(path) = &options.c_header {
        let mut header = String::new();
        c_header::write(&mut header, "EXAMPLE_HANDLERS_H", &HANDLERS)?;
        return std::fs::write(path, header).with_context(|| path.display().to_string());
    }
    let dispatcher = Dispatcher::start(&HANDLERS, PTX)?;
    let mut client = Client::new(dispatcher.ring());
    let mut wrong = 0;
    for handler in &HANDLERS {
        let counts = requests::ask(&mut client, handler, options.requests)?;
        println!(
            "{} ({:?}): {} of {} answers right, run by {}",
            handler.name,
            handler.kind,
            counts.right,
            options.requests,
            dispatcher.runs_on()
        );
        wrong += counts.wrong;
    }
    let stopped = dispatcher.stop();
    println!("stopped: {}", stopped.text);
    ensure!(wrong == 0, "{wrong} answers differ from those of the plain functions");
    ensure!(stopped.clean, "the dispatcher did not stop cleanly");
    Ok(())
}
