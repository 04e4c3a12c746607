//! Reading and writing another program's memory.

use std::io;

/// Reads `length` bytes at an address of the program that `thread` belongs to.
pub(crate) fn read_memory(thread: u32, address: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: length };
    // SAFETY: the local vector is `bytes`, writable for its length; the kernel checks the
    // remote one against the other program's memory.
    let done = unsafe { libc::process_vm_readv(thread as libc::pid_t, &local, 1, &remote, 1, 0) };
    whole(done, length)?;
    Ok(bytes)
}

/// Writes to an address of the program that `thread` belongs to.
pub(crate) fn write_memory(thread: u32, address: u64, bytes: &[u8]) -> io::Result<()> {
    let length = bytes.len();
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: length };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: length };
    // SAFETY: the local vector is `bytes`, which the call only reads; the kernel checks the
    // remote one against the other program's memory.
    let done = unsafe { libc::process_vm_writev(thread as libc::pid_t, &local, 1, &remote, 1, 0) };
    whole(done, length)
}

fn whole(done: libc::ssize_t, length: usize) -> io::Result<()> {
    match usize::try_from(done) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(done) if done < length => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Ok(_) => Ok(()),
    }
}
