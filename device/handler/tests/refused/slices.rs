use ringcall_handler::handler;

#[handler]
fn no_room(input: &[u8]) -> usize {
    input.len()
}

#[handler]
fn extra(input: &[u8], count: i32, output: &mut [u8]) -> usize {
    output.len() + input.len() + count as usize
}

#[handler]
fn no_length(_: &[u8], _: &mut [u8]) {}

fn main() {}
