// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// TPU systems: finding one by name, asking what it has, initializing it.
//
// A name is one of
//   "" or "local"              this machine's pod: 8 cores of one host
//   virtual:AxB[xC][,cores=N][,hosts=H]
//                              a pod of A x B x C chips of N cores (default 2),
//                              split along x over H hosts (default 1); for
//                              ,fault= see ls_pod_inject
//   grpc://HOST[:PORT],...     addresses of workers
// or any other, which a service of the caller's looks up. Local and virtual
// pods have the names, shapes and rules of real ones, and compute on this
// machine. Addresses are parsed and shown; nothing is connected to.
//
// Threads: any number of threads use a resolver at the same time; its task is
// set by one, while nobody asks for it.
#ifndef LOCKSTEP_TPU_SYSTEM_H_
#define LOCKSTEP_TPU_SYSTEM_H_

#include "lockstep/cluster.h"
#include "lockstep/graph.h"
#include "lockstep/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- What a caller's service says ------------------------------------------
typedef struct ls_tpu_endpoint {
  const char *address;
  int port;  // 0: 8470.
} ls_tpu_endpoint;

// A TPU as a lookup found it. All is lent until the next call.
typedef struct ls_tpu_node {
  const char *state;  // Nothing but "READY" can be used.
  const ls_tpu_endpoint *endpoints;
  size_t num_endpoints;
  ls_tpu_endpoint single;  // Without endpoints.
} ls_tpu_node;

// A question to the system behind a master.
typedef struct ls_tpu_question {
  const char *master;
  bool wants_topology;
  bool initializes;  // It shall be initialized, too.
} ls_tpu_question;

// Its answer, lent until the next call.
typedef struct ls_tpu_answer {
  const char *const *devices;  // All that it has, by name.
  size_t num_devices;
  const void *topology;  // Serialized; when it is wanted.
  size_t topology_size;
} ls_tpu_answer;

// ---- Resolvers -------------------------------------------------------------
// A counted object.
typedef struct ls_tpu_resolver ls_tpu_resolver;

// Zero in a field means its default. All is copied.
typedef struct ls_tpu_resolver_options {
  // The system's name. Without one or with an empty one it is taken from the
  // environment: KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS, else TPU_NAME, else
  // tpu_node_name of the JSON in TPU_CONFIG, which may also have a project and
  // a zone, else it is the local system.
  const char *name;
  const char *const *names;  // Instead of it: a list of one.
  size_t num_names;
  const char *zone, *project;
  const char *job;                  // Of the workers. Default "worker".
  const char *coordinator;          // Its job. Default: none, or "coordinator"
                                    // if it has an address.
  const char *coordinator_address;  // Default: a free port of this machine, if
                                    // there is a coordinator.
  // Looks a name up, on any thread. NOT_FOUND says that there is none.
  ls_status (*lookup)(void *user, const char *name, const char *zone,
                      const char *project, ls_tpu_node *out_node);
  // Asks the system behind a master. DEADLINE_EXCEEDED is tried again.
  ls_status (*query)(void *user, const ls_tpu_question *question,
                     ls_tpu_answer *out_answer);
  void *user;
  // The local system's shape, as behind "virtual:". Default: what it has, if it
  // is there; else the environment's LS_LOCAL_POD, else "2x2".
  const char *local;
  int32_t queue_depth;  // Tuples that an infeed or outfeed holds. Default 64.
  // Memory of a core: programs that need more do not compile. Default: no
  // limit.
  int64_t core_bytes;
  // How often a question is asked again for devices, and for metadata; how long
  // to wait before. Defaults 120, 288 and 1000.
  ls_opt device_retries, metadata_retries, retry_ms;
} ls_tpu_resolver_options;

// The caller owns it. `options` may be NULL.
//   LS_INVALID_ARGUMENT  no name in the list; a virtual pod, an address or a
//                        TPU_CONFIG that cannot be: names the part.
//   LS_UNIMPLEMENTED     more than one name.
LS_API LS_MUST_USE ls_status ls_tpu_resolver_create(
    const ls_tpu_resolver_options *options, ls_tpu_resolver **out_resolver);
// Creates one, connects to its system and initializes that.
LS_API LS_MUST_USE ls_status ls_tpu_resolver_connect(
    const ls_tpu_resolver_options *options, ls_tpu_resolver **out_resolver);
// A copy of a resolver is the same one.
LS_API ls_tpu_resolver *ls_tpu_resolver_retain(ls_tpu_resolver *resolver);
LS_API void ls_tpu_resolver_release(ls_tpu_resolver *resolver);

// What it was made of; NULL: it was not given. Lent.
LS_API const char *ls_tpu_resolver_name(const ls_tpu_resolver *resolver);
LS_API const char *ls_tpu_resolver_zone(const ls_tpu_resolver *resolver);
LS_API const char *ls_tpu_resolver_project(const ls_tpu_resolver *resolver);
LS_API const char *ls_tpu_resolver_job(const ls_tpu_resolver *resolver);
LS_API const char *ls_tpu_resolver_coordinator(const ls_tpu_resolver *resolver);
LS_API const char *
ls_tpu_resolver_coordinator_address(const ls_tpu_resolver *resolver);
LS_API const char *ls_tpu_resolver_environment(const ls_tpu_resolver *resolver);
// "/job:worker/task:0".
LS_API ls_device_name
ls_tpu_resolver_coordination_leader(const ls_tpu_resolver *resolver);
// Which task this process is: at first the job's task 0.
LS_API const char *ls_tpu_resolver_task_type(const ls_tpu_resolver *resolver);
LS_API int32_t ls_tpu_resolver_task_id(const ls_tpu_resolver *resolver);
LS_API LS_MUST_USE ls_status ls_tpu_resolver_set_task(ls_tpu_resolver *resolver,
                                                      const char *type,
                                                      int32_t id);
// What the hardware can do, a serialized TPUHardwareFeature, and its size; NULL
// before the system is initialized through this resolver. Lent.
LS_API const char *ls_tpu_resolver_hardware(const ls_tpu_resolver *resolver,
                                            size_t *out_size);

// ---- Clusters --------------------------------------------------------------
// Its workers, asked for anew each time, and its coordinator. Local and virtual
// systems have none. Given back with ls_cluster_spec_destroy.
//   LS_INVALID_ARGUMENT     the name is unknown.
//   LS_FAILED_PRECONDITION  the TPU is not READY.
LS_API LS_MUST_USE ls_status ls_tpu_resolver_cluster_spec(
    const ls_tpu_resolver *resolver, ls_cluster_spec **out_spec);

enum { LS_MAX_MASTER = 512 };
typedef struct ls_master {
  char text[LS_MAX_MASTER];
} ls_master;

// "grpc://" and the address of a task; by default (NULL, not set) of the
// resolver's own. Of the local system "", of a virtual one its name.
//   LS_INVALID_ARGUMENT  there is no such job or task.
LS_API LS_MUST_USE ls_status
ls_tpu_resolver_master(const ls_tpu_resolver *resolver, const char *task_type,
                       ls_opt task_id, ls_master *out_master);
// The job on whose devices to place ops: none (NULL) on the local masters ""
// and "local"; without a cluster "tpu_worker"; else that of its jobs which is
// not "coordinator". Lent by `spec`.
//   LS_INVALID_ARGUMENT  a cluster with a "tpu_worker"; more or fewer jobs.
LS_API LS_MUST_USE ls_status ls_tpu_placement_job(const char *master,
                                                  const ls_cluster_spec *spec,
                                                  const char **out_job);

// ---- What a system has -----------------------------------------------------
// TPUs of a host; 0: the system has none. Beyond the local and virtual systems
// it needs the query.
//   LS_FAILED_PRECONDITION  hosts differ, or the system did not answer in time.
LS_API LS_MUST_USE ls_status ls_tpu_resolver_num_accelerators(
    const ls_tpu_resolver *resolver, int32_t *out_tpus);

typedef struct ls_tpu_metadata {
  int32_t num_cores, num_hosts, num_of_cores_per_host;
  ls_topology *topology;  // NULL unless it is asked for.
  // All devices, by their canonical names, sorted by job, replica, task, type
  // and index.
  const ls_device_name *devices;
  size_t num_devices;
} ls_tpu_metadata;

// Given back with ls_tpu_metadata_destroy.
//   LS_FAILED_PRECONDITION  hosts differ in their cores; a topology of a system
//                           without TPUs.
//   LS_INVALID_ARGUMENT     the system did not answer in time.
//   LS_UNIMPLEMENTED        addresses, and no query.
LS_API LS_MUST_USE ls_status
ls_tpu_metadata_query(const ls_tpu_resolver *resolver, bool want_topology,
                      ls_tpu_metadata **out_metadata);
LS_API void ls_tpu_metadata_destroy(ls_tpu_metadata *metadata);

// ---- Systems ---------------------------------------------------------------
// Comes first; any number of times.
//   LS_UNIMPLEMENTED  addresses, and no query: names the first.
LS_API LS_MUST_USE ls_status ls_tpu_connect(const ls_tpu_resolver *resolver);
// Initializes the system; from then on its devices are there and compute. A
// second time warns, as what is on the devices may be lost: queues are empty
// and open again, ops are compiled anew. While a function is being traced
// nothing is done but giving the topology. The caller releases it; NULL: it is
// not wanted.
//
// A job has one system at a time, as its devices are named by it. What is made
// for a system (strategies, assignments of its topology, computations, ops of
// infeed and outfeed, estimators) stays that system's: it is compiled anew when
// the system is initialized again, and refused with FAILED_PRECONDITION while
// it is not, whenever it was compiled; also if another size has the name then.
// The local system computes without it, until it is shut down.
//   LS_NOT_FOUND            it has no TPUs: lists the devices.
//   LS_FAILED_PRECONDITION  another system of its job is initialized: names it.
//   LS_UNIMPLEMENTED        as above.
LS_API LS_MUST_USE ls_status ls_tpu_initialize(ls_tpu_resolver *resolver,
                                               ls_topology **out_topology);
// Undoes it: the name stands for another system from then on. Warns if it was
// not initialized.
//   LS_FAILED_PRECONDITION  a function is being traced.
LS_API LS_MUST_USE ls_status ls_tpu_shutdown(ls_tpu_resolver *resolver);

// A system that is initialized.
typedef struct ls_tpu_system {
  const char *name, *job;
  ls_topology *topology;
} ls_tpu_system;
// A copy of the table of them. Given back with ls_tpu_systems_destroy.
typedef struct ls_tpu_systems {
  const ls_tpu_system *systems;
  size_t count;
} ls_tpu_systems;
LS_API LS_MUST_USE ls_status
ls_tpu_initialized_systems(ls_tpu_systems **out_systems);
LS_API void ls_tpu_systems_destroy(ls_tpu_systems *systems);

// All devices of the runtime: CPUs and GPUs, then those of the local and
// virtual systems that are initialized. `*out_devices` is the caller's and
// given back with the runtime's allocator.
LS_API LS_MUST_USE ls_status ls_runtime_devices(ls_runtime *runtime,
                                                ls_device_name **out_devices,
                                                size_t *out_count);

// The device that stands for the system of a job: "/job:w/device:TPU_SYSTEM:0";
// without a job (NULL) "/device:TPU_SYSTEM:0".
LS_API LS_MUST_USE ls_status ls_tpu_system_device(const char *job,
                                                  ls_device_name *out_name);
// Logical core n of a replica: "device:TPU_REPLICATED_CORE:n".
LS_API ls_device_name ls_tpu_core_device(int32_t core);

// The same as ops on the system's device: of the system of a job that is
// initialized, else the only one connected, or of the local system; a run is
// FAILED_PRECONDITION where several are connected and none is initialized. The
// value of the first is the serialized topology, a string scalar. Initializing
// once more does not warn.
LS_PLACED ls_tensor ls_tpu_initialize_op(const char *job);
LS_PLACED ls_op ls_tpu_shutdown_op(const char *job);

// ---- Pods ------------------------------------------------------------------
// The table of a local or virtual system: hosts, cores, where they are. A
// counted object.
typedef struct ls_pod ls_pod;
// The caller releases it.
//   LS_UNIMPLEMENTED  another kind of system.
LS_API LS_MUST_USE ls_status ls_tpu_pod(const ls_tpu_resolver *resolver,
                                        ls_pod **out_pod);
LS_API void ls_pod_release(ls_pod *pod);  // NULL is fine.
// Draws its mesh, hosts and cores; the caller gives the text back with the
// runtime's allocator.
LS_API LS_MUST_USE ls_status ls_pod_print(const ls_pod *pod, char **out_text);

// ---- Faults ----------------------------------------------------------------
// What can go wrong with a pod, planned: a condition at a door through which
// runs pass. Steps are what passes there, counted from 0 since the fault was
// planned or the system was initialized: each compilation of a program with a
// computation for its cores, each run of one, each take of a tuple from an
// infeed, each put of one into an infeed or outfeed, each question for a host's
// health.
//
// A run that was under way when the system was initialized anew is refused at
// the next queue where it waits; later runs are compiled anew.
typedef enum ls_pod_fault_kind {
  // The host is gone: calls and takes end with UNAVAILABLE, which names it. So
  // is a core. Variables are what the last whole step has left. It comes back
  // when the system is initialized anew.
  LS_POD_HOST_PREEMPTED,
  LS_POD_CORE_LOST,
  // Of the tuples that are put into a core's infeed one does not arrive, comes
  // late, is of another type (a byte), or is the last: the infeed closes.
  LS_POD_TUPLE_LOST,
  LS_POD_TUPLE_LATE,
  LS_POD_TUPLE_CHANGED,
  LS_POD_INFEED_CLOSED,
  // A core takes its time with a step, by the runtime's clock, and a line in
  // the log says so; or fails to put a tuple into its outfeed, with ABORTED and
  // the fault's text.
  LS_POD_CORE_SLOW,
  LS_POD_OUTFEED_FAILS,
  // A program for a core of the host does not compile: INVALID_ARGUMENT with
  // the fault's text. Or a core has `bytes` of memory: what needs more does
  // not compile.
  LS_POD_COMPILE_FAILS,
  LS_POD_MEMORY_SHORT,
  // What the host says of its health: that it will go soon, nothing, or that it
  // cannot tell.
  LS_POD_HOST_LAME,
  LS_POD_HOST_SILENT,
  LS_POD_NO_HEARTBEAT,
} ls_pod_fault_kind;

// Zero in a field means what it says.
typedef struct ls_pod_fault {
  ls_pod_fault_kind kind;
  int32_t host, core;  // The core by its number on the host; of a host any.
  int64_t at_step;     // Steps before it happens.
  int64_t every;       // And then at each so-manieth; 0: once.
  int64_t nanos;       // How late or slow. Needed there.
  int64_t bytes;       // What memory there is. Needed there.
  const char *text;    // What the outfeed, or who compiles, says. NULL:
                       // "planned". Copied.
} ls_pod_fault;

// Plans a fault. A name can do so too, behind the rest and as often as wanted:
//   ,fault=KIND@hostH[.coreC][:stepK][:everyN][:DURATION][:BYTES]
// KIND is preempt, lost, drop, late, change, close, slow, fail, compile,
// memory, lame, silent or noheartbeat, as above, DURATION a number of ns, us,
// ms or s, and BYTES one of B, KiB, MiB or GiB:
// "virtual:4x4,fault=preempt@host0:step9".
//   LS_INVALID_ARGUMENT  no such kind, host or core; a number below 0; nothing
//                        that says how late or slow, or how much.
LS_API LS_MUST_USE ls_status ls_pod_inject(ls_pod *pod,
                                           const ls_pod_fault *fault);
// Nothing is wrong any more, also what has happened.
LS_API void ls_pod_heal(ls_pod *pod);

// ---- Hosts -----------------------------------------------------------------
LS_API int32_t ls_pod_num_hosts(const ls_pod *pod);

typedef enum ls_pod_health {
  LS_POD_HEALTHY,
  LS_POD_LAME,  // The host will go soon: save, and shut it down.
} ls_pod_health;

// Asks a host how it is, for at most `timeout_nanos` of the runtime's clock.
//   LS_INVALID_ARGUMENT   no such host; a time below 1.
//   LS_UNIMPLEMENTED      it cannot tell.
//   LS_DEADLINE_EXCEEDED  it did not answer in time.
//   LS_UNAVAILABLE        it is gone.
LS_API LS_MUST_USE ls_status ls_pod_ask_health(ls_pod *pod, int32_t host,
                                               int64_t timeout_nanos,
                                               ls_pod_health *out_health);
// Has a host go now: as if it were preempted, until the system is initialized
// anew.
//   LS_INVALID_ARGUMENT  no such host.
LS_API LS_MUST_USE ls_status ls_pod_shut_down_host(ls_pod *pod, int32_t host);
// From now on a host of which nobody has heard for so long how it is goes by
// itself, as if it were preempted; 0: none does any more.
//   LS_INVALID_ARGUMENT  a time below 0.
LS_API LS_MUST_USE ls_status ls_pod_watch(ls_pod *pod, int64_t timeout_nanos);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TPU_SYSTEM_H_
