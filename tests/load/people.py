"""Many users, groups, projects and role bindings, for `./bench appliance --people`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.accounts.models import Department, Group, GroupMember, Project, RoleBinding, User

BATCH = 500
GROUPS_PER_MEMBER = 3
TREE_WIDTH = 8
"""Groups in one group, so that 200 groups are three deep."""
ROLES = ("viewer", "user", "operator")


@dataclass(frozen=True)
class People:
    users: int = 2000
    groups: int = 200
    departments: int = 20
    projects: int = 300
    bindings: int = 5000


def add_people(people: People, clients: Sequence[User]) -> None:
    """Add users with groups and roles. The clients of the load are in groups, too."""
    rng = random.Random(11)
    departments = Department.objects.bulk_create(
        Department(name=f"department{n}") for n in range(people.departments)
    )
    projects = Project.objects.bulk_create(
        (
            Project(name=f"project{n}", department=departments[n % len(departments)])
            for n in range(people.projects)
        ),
        batch_size=BATCH,
    )
    users = User.objects.bulk_create(
        (User(username=f"person{n}", password="!") for n in range(people.users)), batch_size=BATCH
    )
    groups = Group.objects.bulk_create(Group(name=f"group{n}") for n in range(people.groups))
    add_members(rng, groups, [*users, *clients])
    bind(rng, people.bindings, users, groups, projects, departments)


def add_members(rng: random.Random, groups: Sequence[Group], users: Sequence[User]) -> None:
    tree = [
        GroupMember(group=groups[n // TREE_WIDTH], member_group=group)
        for n, group in enumerate(groups)
        if n >= TREE_WIDTH
    ]
    people = [
        GroupMember(group=group, user=user)
        for user in users
        for group in rng.sample(groups, min(GROUPS_PER_MEMBER, len(groups)))
    ]
    GroupMember.objects.bulk_create([*tree, *people], batch_size=BATCH)


def bind(
    rng: random.Random,
    count: int,
    users: Sequence[User],
    groups: Sequence[Group],
    projects: Sequence[Project],
    departments: Sequence[Department],
) -> None:
    """Create role bindings that are all different: a third of them of groups."""
    made: dict[tuple[object, ...], RoleBinding] = {}
    while len(made) < count:
        group = rng.choice(groups) if rng.random() < 0.33 else None
        user = None if group else rng.choice(users)
        department = rng.choice(departments) if rng.random() < 0.1 else None
        project = None if department else rng.choice(projects)
        role = rng.choice(ROLES)
        key = (user, group, department, project, role)
        made[key] = RoleBinding(
            user=user, group=group, department=department, project=project, role=role
        )
    RoleBinding.objects.bulk_create(made.values(), batch_size=BATCH)
