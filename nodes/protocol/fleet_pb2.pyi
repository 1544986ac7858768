from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentMessage(_message.Message):
    __slots__ = ("boot_id", "sequence", "inventory", "report", "samples", "heartbeat")
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    boot_id: str
    sequence: int
    inventory: Inventory
    report: Report
    samples: Samples
    heartbeat: Heartbeat
    def __init__(self, boot_id: _Optional[str] = ..., sequence: _Optional[int] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., samples: _Optional[_Union[Samples, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ...) -> None: ...

class Inventory(_message.Message):
    __slots__ = ("agent_version", "driver_version", "operating_system", "software", "endpoints", "gpus", "cuda_version", "isolation", "suspends", "resizes")
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    DRIVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    OPERATING_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    CUDA_VERSION_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    SUSPENDS_FIELD_NUMBER: _ClassVar[int]
    RESIZES_FIELD_NUMBER: _ClassVar[int]
    agent_version: str
    driver_version: str
    operating_system: str
    software: bool
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    gpus: _containers.RepeatedCompositeFieldContainer[Gpu]
    cuda_version: str
    isolation: _containers.RepeatedScalarFieldContainer[str]
    suspends: bool
    resizes: bool
    def __init__(self, agent_version: _Optional[str] = ..., driver_version: _Optional[str] = ..., operating_system: _Optional[str] = ..., software: _Optional[bool] = ..., endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ..., gpus: _Optional[_Iterable[_Union[Gpu, _Mapping]]] = ..., cuda_version: _Optional[str] = ..., isolation: _Optional[_Iterable[str]] = ..., suspends: _Optional[bool] = ..., resizes: _Optional[bool] = ...) -> None: ...

class Endpoint(_message.Message):
    __slots__ = ("address", "port")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    address: str
    port: int
    def __init__(self, address: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class Gpu(_message.Message):
    __slots__ = ("uuid", "index", "model", "memory_bytes", "compute_capability", "pci_bus_id", "mig", "links", "context_bytes")
    class LinksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    UUID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    PCI_BUS_ID_FIELD_NUMBER: _ClassVar[int]
    MIG_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_BYTES_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    index: int
    model: str
    memory_bytes: int
    compute_capability: str
    pci_bus_id: str
    mig: bool
    links: _containers.ScalarMap[int, str]
    context_bytes: int
    def __init__(self, uuid: _Optional[bytes] = ..., index: _Optional[int] = ..., model: _Optional[str] = ..., memory_bytes: _Optional[int] = ..., compute_capability: _Optional[str] = ..., pci_bus_id: _Optional[str] = ..., mig: _Optional[bool] = ..., links: _Optional[_Mapping[int, str]] = ..., context_bytes: _Optional[int] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("generation", "sessions", "over", "knows_over", "suspensions", "shares")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    KNOWS_OVER_FIELD_NUMBER: _ClassVar[int]
    SUSPENSIONS_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    generation: int
    sessions: _containers.RepeatedCompositeFieldContainer[Session]
    over: _containers.RepeatedCompositeFieldContainer[Holding]
    knows_over: bool
    suspensions: _containers.RepeatedCompositeFieldContainer[Suspension]
    shares: _containers.RepeatedCompositeFieldContainer[ReceivedShare]
    def __init__(self, generation: _Optional[int] = ..., sessions: _Optional[_Iterable[_Union[Session, _Mapping]]] = ..., over: _Optional[_Iterable[_Union[Holding, _Mapping]]] = ..., knows_over: _Optional[bool] = ..., suspensions: _Optional[_Iterable[_Union[Suspension, _Mapping]]] = ..., shares: _Optional[_Iterable[_Union[ReceivedShare, _Mapping]]] = ...) -> None: ...

class ReceivedShare(_message.Message):
    __slots__ = ("allocation_id", "received_percent")
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_PERCENT_FIELD_NUMBER: _ClassVar[int]
    allocation_id: bytes
    received_percent: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, allocation_id: _Optional[bytes] = ..., received_percent: _Optional[_Iterable[float]] = ...) -> None: ...

class Suspension(_message.Message):
    __slots__ = ("allocation_id", "revision", "state", "released_bytes", "reason")
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RELEASED_BYTES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    allocation_id: bytes
    revision: int
    state: str
    released_bytes: int
    reason: str
    def __init__(self, allocation_id: _Optional[bytes] = ..., revision: _Optional[int] = ..., state: _Optional[str] = ..., released_bytes: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Holding(_message.Message):
    __slots__ = ("allocation_id", "held_bytes")
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    HELD_BYTES_FIELD_NUMBER: _ClassVar[int]
    allocation_id: bytes
    held_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, allocation_id: _Optional[bytes] = ..., held_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class Session(_message.Message):
    __slots__ = ("id", "allocation_id", "state", "pid", "client_pid", "client_address", "program", "isolation", "memory_bytes", "launches", "bytes_in", "bytes_out", "end_reason", "opened_seconds", "partition_bytes", "refused_calls", "longest_drain_ms")
    class IsolationEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_PID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    LAUNCHES_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
    END_REASON_FIELD_NUMBER: _ClassVar[int]
    OPENED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_BYTES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_CALLS_FIELD_NUMBER: _ClassVar[int]
    LONGEST_DRAIN_MS_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    allocation_id: bytes
    state: str
    pid: int
    client_pid: int
    client_address: str
    program: str
    isolation: _containers.ScalarMap[str, str]
    memory_bytes: int
    launches: int
    bytes_in: int
    bytes_out: int
    end_reason: str
    opened_seconds: int
    partition_bytes: _containers.RepeatedScalarFieldContainer[int]
    refused_calls: _containers.RepeatedScalarFieldContainer[str]
    longest_drain_ms: int
    def __init__(self, id: _Optional[bytes] = ..., allocation_id: _Optional[bytes] = ..., state: _Optional[str] = ..., pid: _Optional[int] = ..., client_pid: _Optional[int] = ..., client_address: _Optional[str] = ..., program: _Optional[str] = ..., isolation: _Optional[_Mapping[str, str]] = ..., memory_bytes: _Optional[int] = ..., launches: _Optional[int] = ..., bytes_in: _Optional[int] = ..., bytes_out: _Optional[int] = ..., end_reason: _Optional[str] = ..., opened_seconds: _Optional[int] = ..., partition_bytes: _Optional[_Iterable[int]] = ..., refused_calls: _Optional[_Iterable[str]] = ..., longest_drain_ms: _Optional[int] = ...) -> None: ...

class Samples(_message.Message):
    __slots__ = ("gpus", "metrics")
    GPUS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    gpus: _containers.RepeatedCompositeFieldContainer[GpuSample]
    metrics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, gpus: _Optional[_Iterable[_Union[GpuSample, _Mapping]]] = ..., metrics: _Optional[_Iterable[str]] = ...) -> None: ...

class GpuSample(_message.Message):
    __slots__ = ("gpu_uuid", "values")
    GPU_UUID_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    gpu_uuid: bytes
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, gpu_uuid: _Optional[bytes] = ..., values: _Optional[_Iterable[float]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ApplianceMessage(_message.Message):
    __slots__ = ("appliance_seconds", "heartbeat_seconds", "desired_state", "acknowledged_sequence")
    APPLIANCE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DESIRED_STATE_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    appliance_seconds: int
    heartbeat_seconds: float
    desired_state: DesiredState
    acknowledged_sequence: int
    def __init__(self, appliance_seconds: _Optional[int] = ..., heartbeat_seconds: _Optional[float] = ..., desired_state: _Optional[_Union[DesiredState, _Mapping]] = ..., acknowledged_sequence: _Optional[int] = ...) -> None: ...

class DesiredState(_message.Message):
    __slots__ = ("generation", "appliance_seconds", "ticket_keys", "grants", "authorities")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    APPLIANCE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TICKET_KEYS_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    AUTHORITIES_FIELD_NUMBER: _ClassVar[int]
    generation: int
    appliance_seconds: int
    ticket_keys: _containers.RepeatedCompositeFieldContainer[TicketKey]
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    authorities: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, generation: _Optional[int] = ..., appliance_seconds: _Optional[int] = ..., ticket_keys: _Optional[_Iterable[_Union[TicketKey, _Mapping]]] = ..., grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ..., authorities: _Optional[_Iterable[bytes]] = ...) -> None: ...

class TicketKey(_message.Message):
    __slots__ = ("id", "public_key", "node_secret")
    ID_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    NODE_SECRET_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    public_key: bytes
    node_secret: bytes
    def __init__(self, id: _Optional[bytes] = ..., public_key: _Optional[bytes] = ..., node_secret: _Optional[bytes] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("allocation_id", "tenant_id", "fence_epoch", "fence_counter", "partitions", "required_isolation", "compute_mode", "suspension", "suspension_revision", "suspension_wait_seconds", "max_late_seconds")
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FENCE_COUNTER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_ISOLATION_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_MODE_FIELD_NUMBER: _ClassVar[int]
    SUSPENSION_FIELD_NUMBER: _ClassVar[int]
    SUSPENSION_REVISION_FIELD_NUMBER: _ClassVar[int]
    SUSPENSION_WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_LATE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    allocation_id: bytes
    tenant_id: bytes
    fence_epoch: int
    fence_counter: int
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    required_isolation: _containers.RepeatedScalarFieldContainer[str]
    compute_mode: str
    suspension: str
    suspension_revision: int
    suspension_wait_seconds: int
    max_late_seconds: int
    def __init__(self, allocation_id: _Optional[bytes] = ..., tenant_id: _Optional[bytes] = ..., fence_epoch: _Optional[int] = ..., fence_counter: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., required_isolation: _Optional[_Iterable[str]] = ..., compute_mode: _Optional[str] = ..., suspension: _Optional[str] = ..., suspension_revision: _Optional[int] = ..., suspension_wait_seconds: _Optional[int] = ..., max_late_seconds: _Optional[int] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("gpu_uuid", "memory_bytes", "compute_percent")
    GPU_UUID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_PERCENT_FIELD_NUMBER: _ClassVar[int]
    gpu_uuid: bytes
    memory_bytes: int
    compute_percent: int
    def __init__(self, gpu_uuid: _Optional[bytes] = ..., memory_bytes: _Optional[int] = ..., compute_percent: _Optional[int] = ...) -> None: ...
