from cluster_core.rebalance.bound.check import check_plan as check_plan
from cluster_core.rebalance.execution.machine import Execution as Execution
from cluster_core.rebalance.goal.problem import Master as Master
from cluster_core.rebalance.goal.problem import Problem as Problem
from cluster_core.rebalance.plan import Move as Move
from cluster_core.rebalance.plan import Plan as Plan
