# SPDX-License-Identifier: Apache-2.0
"""Every option of the ``[quintupleo]`` section."""

from keystoneauth1 import loading
from oslo_config import cfg
from oslo_config import types

CONF = cfg.CONF
GROUP = 'quintupleo'

opts = [
    cfg.StrOpt(
        'cloud',
        help='Name of the entry of clouds.yaml that describes the host '
             'cloud, for nodes that name none in '
             'driver_info/quintupleo_cloud. When it is not set, the '
             'authentication options of this section are used.'),
    cfg.StrOpt(
        'endpoint_override',
        help='URL of the compute service, where the one in the catalog is '
             'not to be used. It is for the authentication options of this '
             'section; an entry of clouds.yaml has '
             'compute_endpoint_override.'),
    *(cfg.StrOpt(
        f'rescue_image_{mode}',
        default=f'quintupleo-rescue-{mode}',
        help=f'UUID or name of the image that is rescued from to boot a '
             f'{mode.upper()} server from the network. A name must be unique '
             'in the host cloud.')
      for mode in ('bios', 'uefi')),
    *(cfg.StrOpt(
        f'empty_image_{mode}',
        default=f'quintupleo-empty-{mode}',
        help='UUID or name of the image for the wiped disk of a '
             f'{mode.upper()} server that was not made from an empty image. '
             'A rebuild from it also switches a server to this boot mode. A '
             'name must be unique in the host cloud.')
      for mode in ('bios', 'uefi')),
    cfg.StrOpt(
        'empty_image_secure_boot',
        default='quintupleo-empty-secure-boot',
        help='UUID or name of the empty image that a server is rebuilt from '
             'to switch it to UEFI with secure boot. A name must be unique '
             'in the host cloud.'),
    cfg.FloatOpt(
        'server_list_max_age',
        default=30.0, min=0,
        help='Highest age in seconds of a list of the servers for power '
             'sync, node health and boot mode. One list then serves all '
             'nodes of a pass; use at least the duration of a pass. A change '
             'is reported to Ironic only after another reading of that '
             'server. 0 reads each time, as validation and power requests '
             'always do.'),
    cfg.IntOpt(
        'action_timeout',
        default=300, min=1,
        help='Time in seconds for a power request without a timeout of its '
             'own to end in the host cloud, with all of its Nova actions. '
             'With the default of Nova, os_shutdown_timeout 60 of the image, '
             'each stop or rescue of a guest that ignores ACPI takes that '
             'long.'),
    cfg.IntOpt(
        'image_timeout',
        default=1800, min=1,
        help='Time in seconds for the steps that write a disk from an image '
             'or to one: wipe_disk, snapshot, restore, and the rebuild of '
             'deploy_interface quintupleo-rebuild. The upload of an image '
             'before that rebuild may take as long again. Their duration '
             'depends on the size of the image, and on whether the compute '
             'host has it already.'),
    cfg.IntOpt(
        'unused_instance_images',
        default=5, min=0,
        help='Number of images without servers that deploy_interface '
             'quintupleo-rebuild has uploaded and that may stay in a project '
             'of the host cloud. The newest ones stay; the next upload '
             'removes the others.'),
    cfg.FloatOpt(
        'poll_interval',
        default=2.0, min=0.1,
        help='Longest time in seconds between two polls of a server whose '
             'action is under way. Polls are closer together around the time '
             'that the same action took before.'),
    *(cfg.StrOpt(
        f'{kind}_network',
        help=f'UUID or name of the network of the host cloud that nodes with '
             f'network_interface quintupleo are on for {kind}'
             + ('.' if kind == 'provisioning' else
                '. Default: provisioning_network.'))
      for kind in ('provisioning', 'cleaning', 'rescuing', 'inspection',
                   'servicing')),
    cfg.IPOpt(
        'console_address',
        default='127.0.0.1',
        help='Address of the conductor where console_interface '
             'quintupleo-graphical and quintupleo-serial listen. Who reaches '
             'it has the consoles, without a password: it has to be one that '
             'only the proxies of Ironic and Nova reach. The default is for '
             'proxies on the same host; with several conductors each needs '
             'an address of its own.'),
    cfg.Opt(
        'console_ports', type=types.Range(min=1, max=65535),
        default='20000-29999',
        help='Ports of console_address, one for each node. Each time a node '
             'gets the same one, if nothing else listens there: Nova lets '
             'nobody connect to a serial console whose port has changed.'),
    cfg.ListOpt(
        'inspection_hooks',
        default=[],
        help='Inspection hooks of Ironic that inspect_interface quintupleo '
             'runs on its results, in this order, as '
             'validate-interfaces, ports. The driver itself has made ports '
             'and set properties before. Ironic 29.0 or later is needed.'),
    cfg.BoolOpt(
        'rebuild_replaces_volumes',
        default=False,
        help='Whether the volume service of the host cloud replaces the '
             'volume that a server boots from when Nova rebuilds the server, '
             'as Ceph does. Others write the image into the volume and leave '
             'the rest, which may have old systems. The step wipe_disk then '
             'refuses servers that boot from a volume, and these keep their '
             'boot mode.'),
    cfg.ListOpt(
        'allowed_auth_urls',
        default=[],
        help='Identity endpoints that a node may name in '
             'driver_info/quintupleo_auth_url, besides the one of this '
             'section. A URL allows itself and paths below its own; the '
             'endpoints in the catalog of its identity service are trusted '
             'with it. Only plain URLs count: no user information, query or '
             'encoded characters. '
             'Without this, anybody who may edit a node could make the '
             'conductor talk to an address of theirs.'),
    cfg.ListOpt(
        'allowed_clouds',
        help='Entries of clouds.yaml that a node may name in '
             'driver_info/quintupleo_cloud. Not set: all of them, which is '
             'right where anybody who may edit a node may also use every '
             'cloud of that file. Empty: none.'),
    cfg.BoolOpt(
        'allow_shared_servers',
        default=False,
        help='Whether several nodes may name one server. Without it, a node '
             'that names the server of another node of this Ironic can do '
             'nothing with it.'),
    cfg.BoolOpt(
        'require_server_metadata',
        default=False,
        help='Whether a node may use only a server whose metadata has the '
             'UUID of the node as quintupleo_node. The metadata is out of '
             'reach of the owner of a node, who may write any server into '
             'driver_info/quintupleo_server. Set it with --tag-servers of '
             '"openstack quintupleo server enroll" and "environment enroll", '
             'or by hand with "openstack server set --property".'),
    cfg.BoolOpt(
        'fault_injection',
        default=False,
        help='Whether nodes may be given faults, such as power requests that '
             'fail, by "openstack quintupleo fault create" or the vendor '
             'passthru method "faults". They happen to the real servers, for '
             'tests of software that uses Ironic.'),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the section's options and those of keystoneauth."""
    conf.register_opts(opts + _session_opts(), group=GROUP)
    loading.register_auth_conf_options(conf, GROUP)
    conf.register_opts(_adapter_opts(), group=GROUP)


def _session_opts():
    session_opts = loading.get_session_conf_options()
    # keystoneauth's own default is to wait for ever.
    cfg.set_defaults(session_opts, timeout=60)
    return session_opts


def _adapter_opts():
    """Return those of keystoneauth that are for several services."""
    return [opt for opt in loading.get_adapter_conf_options(
        include_deprecated=False)
        if opt.dest in ('region_name', 'valid_interfaces')]


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options for oslo.config's sample generator."""
    listed: dict[str, cfg.Opt] = {}
    for opt in opts + _session_opts() + _adapter_opts() + [
            loading.get_auth_common_conf_options()[0]]:
        listed.setdefault(opt.dest, opt)
    # An authentication plugin registers its options when it is chosen; a
    # tenant of a cloud uses these two.
    for name in ('v3applicationcredential', 'password'):
        plugin = loading.get_plugin_loader(name)
        for opt in loading.get_auth_plugin_conf_options(plugin):
            listed.setdefault(opt.dest, opt)
    return [(GROUP, sorted(listed.values(), key=lambda opt: opt.name))]


register_opts(CONF)
