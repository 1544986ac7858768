from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ControllerMessage(_message.Message):
    __slots__ = ("snapshot", "change", "heartbeat", "samples", "status", "latest_metrics_request", "stop", "values_beyond_request")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LATEST_METRICS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    VALUES_BEYOND_REQUEST_FIELD_NUMBER: _ClassVar[int]
    snapshot: Snapshot
    change: Change
    heartbeat: Heartbeat
    samples: Samples
    status: ControllerStatus
    latest_metrics_request: LatestMetricsRequest
    stop: Stop
    values_beyond_request: ValuesBeyondRequest
    def __init__(self, snapshot: _Optional[_Union[Snapshot, _Mapping]] = ..., change: _Optional[_Union[Change, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., samples: _Optional[_Union[Samples, _Mapping]] = ..., status: _Optional[_Union[ControllerStatus, _Mapping]] = ..., latest_metrics_request: _Optional[_Union[LatestMetricsRequest, _Mapping]] = ..., stop: _Optional[_Union[Stop, _Mapping]] = ..., values_beyond_request: _Optional[_Union[ValuesBeyondRequest, _Mapping]] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("sequence", "reachable_nodes")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REACHABLE_NODES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    reachable_nodes: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, sequence: _Optional[int] = ..., reachable_nodes: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("sequence", "topic", "object_id", "removal")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    OBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    REMOVAL_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    topic: str
    object_id: bytes
    removal: Removal
    def __init__(self, sequence: _Optional[int] = ..., topic: _Optional[str] = ..., object_id: _Optional[bytes] = ..., removal: _Optional[_Union[Removal, _Mapping]] = ...) -> None: ...

class Removal(_message.Message):
    __slots__ = ("privilege", "any_project", "projects")
    PRIVILEGE_FIELD_NUMBER: _ClassVar[int]
    ANY_PROJECT_FIELD_NUMBER: _ClassVar[int]
    PROJECTS_FIELD_NUMBER: _ClassVar[int]
    privilege: str
    any_project: bool
    projects: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, privilege: _Optional[str] = ..., any_project: _Optional[bool] = ..., projects: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: bytes
    def __init__(self, node_id: _Optional[bytes] = ...) -> None: ...

class Samples(_message.Message):
    __slots__ = ("seconds", "metrics", "series")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    metrics: _containers.RepeatedScalarFieldContainer[str]
    series: _containers.RepeatedCompositeFieldContainer[SeriesSample]
    def __init__(self, seconds: _Optional[float] = ..., metrics: _Optional[_Iterable[str]] = ..., series: _Optional[_Iterable[_Union[SeriesSample, _Mapping]]] = ...) -> None: ...

class SeriesSample(_message.Message):
    __slots__ = ("series_id", "values")
    SERIES_ID_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    series_id: bytes
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, series_id: _Optional[bytes] = ..., values: _Optional[_Iterable[float]] = ...) -> None: ...

class ControllerStatus(_message.Message):
    __slots__ = ("waiting_writes", "index_mismatches", "loop_lag_p50_seconds", "loop_lag_p99_seconds", "failed_work")
    WAITING_WRITES_FIELD_NUMBER: _ClassVar[int]
    INDEX_MISMATCHES_FIELD_NUMBER: _ClassVar[int]
    LOOP_LAG_P50_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOOP_LAG_P99_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FAILED_WORK_FIELD_NUMBER: _ClassVar[int]
    waiting_writes: int
    index_mismatches: int
    loop_lag_p50_seconds: float
    loop_lag_p99_seconds: float
    failed_work: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, waiting_writes: _Optional[int] = ..., index_mismatches: _Optional[int] = ..., loop_lag_p50_seconds: _Optional[float] = ..., loop_lag_p99_seconds: _Optional[float] = ..., failed_work: _Optional[_Iterable[str]] = ...) -> None: ...

class LatestMetricsRequest(_message.Message):
    __slots__ = ("call", "series_id")
    CALL_FIELD_NUMBER: _ClassVar[int]
    SERIES_ID_FIELD_NUMBER: _ClassVar[int]
    call: int
    series_id: bytes
    def __init__(self, call: _Optional[int] = ..., series_id: _Optional[bytes] = ...) -> None: ...

class ValuesBeyondRequest(_message.Message):
    __slots__ = ("call", "metric", "threshold", "above")
    CALL_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    ABOVE_FIELD_NUMBER: _ClassVar[int]
    call: int
    metric: str
    threshold: float
    above: bool
    def __init__(self, call: _Optional[int] = ..., metric: _Optional[str] = ..., threshold: _Optional[float] = ..., above: _Optional[bool] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HttpServerMessage(_message.Message):
    __slots__ = ("ready", "latest_metrics_reply", "token_uses", "refusals", "values_beyond_reply", "failed_work")
    READY_FIELD_NUMBER: _ClassVar[int]
    LATEST_METRICS_REPLY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USES_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    VALUES_BEYOND_REPLY_FIELD_NUMBER: _ClassVar[int]
    FAILED_WORK_FIELD_NUMBER: _ClassVar[int]
    ready: Ready
    latest_metrics_reply: LatestMetricsReply
    token_uses: TokenUses
    refusals: Refusals
    values_beyond_reply: ValuesBeyondReply
    failed_work: FailedWork
    def __init__(self, ready: _Optional[_Union[Ready, _Mapping]] = ..., latest_metrics_reply: _Optional[_Union[LatestMetricsReply, _Mapping]] = ..., token_uses: _Optional[_Union[TokenUses, _Mapping]] = ..., refusals: _Optional[_Union[Refusals, _Mapping]] = ..., values_beyond_reply: _Optional[_Union[ValuesBeyondReply, _Mapping]] = ..., failed_work: _Optional[_Union[FailedWork, _Mapping]] = ...) -> None: ...

class FailedWork(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TokenUses(_message.Message):
    __slots__ = ("uses",)
    USES_FIELD_NUMBER: _ClassVar[int]
    uses: _containers.RepeatedCompositeFieldContainer[TokenUse]
    def __init__(self, uses: _Optional[_Iterable[_Union[TokenUse, _Mapping]]] = ...) -> None: ...

class TokenUse(_message.Message):
    __slots__ = ("token_id", "minute", "address")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    MINUTE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    token_id: bytes
    minute: int
    address: str
    def __init__(self, token_id: _Optional[bytes] = ..., minute: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class Refusals(_message.Message):
    __slots__ = ("refusals",)
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    refusals: _containers.RepeatedCompositeFieldContainer[Refusal]
    def __init__(self, refusals: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("minute", "count", "actor", "address", "code", "action", "token_id", "token_name", "object_kind", "object_id", "request_id")
    MINUTE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_NAME_FIELD_NUMBER: _ClassVar[int]
    OBJECT_KIND_FIELD_NUMBER: _ClassVar[int]
    OBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    minute: int
    count: int
    actor: str
    address: str
    code: str
    action: str
    token_id: str
    token_name: str
    object_kind: str
    object_id: str
    request_id: str
    def __init__(self, minute: _Optional[int] = ..., count: _Optional[int] = ..., actor: _Optional[str] = ..., address: _Optional[str] = ..., code: _Optional[str] = ..., action: _Optional[str] = ..., token_id: _Optional[str] = ..., token_name: _Optional[str] = ..., object_kind: _Optional[str] = ..., object_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class LatestMetricsReply(_message.Message):
    __slots__ = ("call", "metrics")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    CALL_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    call: int
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, call: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class ValuesBeyondReply(_message.Message):
    __slots__ = ("call", "series_ids", "values")
    CALL_FIELD_NUMBER: _ClassVar[int]
    SERIES_IDS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    call: int
    series_ids: bytes
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, call: _Optional[int] = ..., series_ids: _Optional[bytes] = ..., values: _Optional[_Iterable[float]] = ...) -> None: ...
