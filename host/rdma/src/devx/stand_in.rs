//! DevX against stand-ins for rdma-core, which check their arguments. A process of its own loads them in place of the libraries.

use super::pair::{Memory, QueuePair, QueuePairLayout};
use super::{DevxError, Library};
use crate::command::ConnectionService;
use std::fs::{File, create_dir_all, remove_dir_all, write};
use std::os::fd::AsFd;
use std::process::Command;

/// Both libraries: one adapter, whose functions refuse what rdma-core's manual pages do not allow.
const STAND_IN: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct mlx5dv_devx_umem { uint32_t umem_id; };
struct mlx5dv_devx_umem_in {
  void *addr; size_t size; uint32_t access; uint64_t pgsz_bitmap; uint64_t comp_mask; int dmabuf_fd;
};
struct mlx5dv_devx_uar { void *reg_addr; void *base_addr; uint32_t page_id; };
struct ibv_mr { void *context, *pd, *addr; size_t length; uint32_t handle, lkey, rkey; };

static int one;
static struct mlx5dv_devx_umem umem = {7};
static char page[8192] __attribute__((aligned(4096)));
static struct mlx5dv_devx_uar uar = {page + 0x800, page, 3};

static void *refuse(int why) { errno = why; return NULL; }

void **ibv_get_device_list(int *n) { void **list = calloc(2, sizeof *list); list[0] = &one; *n = 1; return list; }
void ibv_free_device_list(void **list) { free(list); }
const char *ibv_get_device_name(void *device) { (void)device; return "mlx5_7"; }
int ibv_close_device(void *context) { (void)context; return 0; }
void *ibv_alloc_pd(void *context) { (void)context; return &one; }
int ibv_dealloc_pd(void *pd) { (void)pd; return 0; }
struct ibv_mr *ibv_reg_mr_iova2(void *pd, void *addr, size_t bytes, uint64_t iova, unsigned access) {
  if (iova != 0 || access != 3 || (uintptr_t)addr % 4096) return refuse(EINVAL);
  struct ibv_mr *mr = calloc(1, sizeof *mr);
  mr->pd = pd, mr->length = bytes, mr->lkey = 1, mr->rkey = 2;
  return mr;
}
struct ibv_mr *ibv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access) {
  if (iova != 0 || access != 3 || offset % 4096 || fcntl(fd, F_GETFD) < 0) return refuse(EINVAL);
  struct ibv_mr *mr = calloc(1, sizeof *mr);
  mr->pd = pd, mr->length = bytes, mr->lkey = 3, mr->rkey = (uint32_t)offset;
  return mr;
}
int ibv_dereg_mr(struct ibv_mr *mr) { free(mr); return 0; }
bool mlx5dv_is_supported(void *device) { (void)device; return true; }
void *mlx5dv_open_device(void *device, void *attributes) { (void)attributes; return device; }
struct mlx5dv_devx_uar *mlx5dv_devx_alloc_uar(void *context, uint32_t kind) { (void)context; (void)kind; return &uar; }
void mlx5dv_devx_free_uar(struct mlx5dv_devx_uar *freed) { (void)freed; }
int mlx5dv_devx_query_eqn(void *context, uint32_t vector, uint32_t *eqn) { (void)context; *eqn = vector; return 0; }
int mlx5dv_init_obj(void *objects, uint64_t kinds) { (void)objects; return kinds == 64 ? 0 : EINVAL; }
struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(void *context, void *addr, size_t bytes, uint32_t access) {
  (void)context;
  return (uintptr_t)addr % 4096 || bytes % 4096 || access != 1 ? refuse(EINVAL) : &umem;
}
struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(void *context, struct mlx5dv_devx_umem_in *in) {
  (void)context;
  if (getenv("NO_DMABUF")) return refuse(EOPNOTSUPP);
  if (in->comp_mask != 1 || fcntl(in->dmabuf_fd, F_GETFD) < 0 || in->access != 1) return refuse(EINVAL);
  return (uintptr_t)in->addr != 8192 || in->size % 4096 || in->pgsz_bitmap != ~4095ull ? refuse(EINVAL) : &umem;
}
int mlx5dv_devx_umem_dereg(struct mlx5dv_devx_umem *freed) { (void)freed; return 0; }
void *mlx5dv_devx_obj_create(void *c, const void *in, size_t n, void *out, size_t m) {
  (void)c; (void)in; (void)n; memset(out, 0, m); return &one;
}
int mlx5dv_devx_obj_modify(void *o, const void *in, size_t n, void *out, size_t m) {
  (void)o; (void)in; (void)n; memset(out, 0, m); return 0;
}
int mlx5dv_devx_obj_destroy(void *object) { (void)object; return 0; }
"#;

fn opened() -> std::sync::Arc<super::Device> {
    Library::load().expect("the stand-ins").open(Some("mlx5_7")).expect("their adapter")
}

#[test]
#[ignore = "needs the stand-ins: the next test runs it"]
fn queue_pair_in_a_dmabuf() {
    let (device, layout) = (opened(), QueuePairLayout::of(6, 6).expect("a size"));
    let file = File::open("/dev/null").expect("a file");
    let at = |offset| Memory::Dmabuf(file.as_fd(), offset);
    // SAFETY: the stand-ins write to no memory.
    let create =
        |memory| unsafe { QueuePair::create(&device, ConnectionService::Unreliable, layout, memory) };
    assert!(matches!(create(at(100)), Err(DevxError::Misaligned(100))));
    assert!(matches!(create(Memory::Host(std::ptr::null_mut())), Err(DevxError::Misaligned(0))));
    if std::env::var_os("NO_DMABUF").is_some() {
        let why = create(at(8192)).expect_err("no dmabuf is registered").to_string();
        assert!(
            why.contains("mlx5dv_devx_umem_reg_ex with a dmabuf") && why.contains("not supported"),
            "{why}"
        );
        return;
    }
    let pair = create(at(8192)).expect("a queue pair");
    assert_eq!(pair.register().as_ptr().addr() % 4096, 0x800);
    // SAFETY: as above.
    let slots = unsafe { pair.register_slots(at(16384), 4096) }.expect("keys");
    assert_eq!((slots.lkey(), slots.rkey()), (3, 16384));
    // SAFETY: as above.
    let refused = unsafe { pair.register_slots(at(5), 4096) }.expect_err("no page begins there");
    assert!(refused.to_string().starts_with("ibv_reg_dmabuf_mr"), "{refused}");
    // Queues in this process's memory work on: the stand-ins write nothing there.
    let here = Memory::Host(std::ptr::without_provenance_mut(65536));
    let pair = create(here).expect("a queue pair");
    // SAFETY: as above.
    let slots = unsafe { pair.register_slots(here, 4096) }.expect("keys");
    assert_eq!((slots.lkey(), slots.rkey()), (1, 2));
}

#[test]
fn memory_of_a_device_is_registered_by_its_file() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: no C compiler `cc`");
        return;
    }
    let folder = std::env::temp_dir().join(format!("ringcall-devx-{}", std::process::id()));
    create_dir_all(&folder).expect("a folder");
    let source = folder.join("stand_in.c");
    write(&source, STAND_IN).expect("written");
    for name in ["libibverbs.so.1", "libmlx5.so.1"] {
        let mut compile = Command::new("cc");
        compile
            .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"])
            .arg(&source)
            .arg("-o")
            .arg(folder.join(name));
        assert!(compile.status().expect("cc").success());
    }
    for refusing in [false, true] {
        let mut test = Command::new(std::env::current_exe().expect("this program"));
        test.args(["--ignored", "--exact", "devx::stand_in::queue_pair_in_a_dmabuf"])
            .env("LD_LIBRARY_PATH", &folder);
        if refusing {
            test.env("NO_DMABUF", "1");
        }
        let output = test.output().expect("ran");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
    remove_dir_all(&folder).expect("removed");
}
