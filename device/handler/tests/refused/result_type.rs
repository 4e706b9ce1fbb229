use ringcall_handler::{Status, handler};

#[handler]
fn text() -> String {
    String::new()
}

#[handler]
fn other_error(value: u8) -> Result<u8, std::fmt::Error> {
    Ok(value)
}

#[handler]
fn both(value: u8, result: &mut u8) -> Result<u8, Status> {
    *result = value;
    Ok(value)
}

fn main() {}
