use ringcall_handler::{Handler, handler, handlers};

#[handler]
fn first(value: u8) -> u8 {
    value
}

#[handler(name = "first")]
fn second(value: u8) -> u8 {
    value
}

fn main() {
    let _: [Handler; 2] = handlers![first, second];
}
