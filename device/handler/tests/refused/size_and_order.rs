use ringcall_handler::{F64, handler};

#[handler]
fn huge(first: &[F64; 0x1fff_ffff], second: &[u8; 9]) -> u8 {
    first.len() as u8 ^ second[0]
}

#[handler]
fn mixed(result: &mut u8, value: u8) {
    *result = value;
}

fn main() {}
