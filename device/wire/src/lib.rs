//! Wire format of the Ringcall RPC protocol: headers, payload types, schemas, flags, status codes.
