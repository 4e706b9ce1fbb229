//! The `ringcall` command.

fn main() -> std::process::ExitCode {
    ringcall_cli::main(std::env::args_os()).into()
}
