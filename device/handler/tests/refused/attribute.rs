use ringcall_handler::handler;

#[handler(id = 3)]
fn key(value: u8) -> u8 {
    value
}

#[handler(kind = "block")]
fn kind(value: u8) -> u8 {
    value
}

#[handler(name = "")]
fn nameless(value: u8) -> u8 {
    value
}

#[handler(name = "one", name = "two")]
fn twice(value: u8) -> u8 {
    value
}

fn main() {}
